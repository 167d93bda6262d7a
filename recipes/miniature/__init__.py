"""Tiny repositories with one-token bugs: the tasks, traces and base model of the miniature recipe.

    families (text) ─► repositories (renamed forks) ─► tasks (a bug, candidate edits, hidden tests)
                                                        ├─► Harbor task directories
                                                        ├─► traces of hasty agents (SFT)
                                                        └─► blind-search baselines (held-out)

Everything is a pure function of the seed. Families belong to one split each; no function of a
held-out family, whatever its names, occurs in another split.
"""
