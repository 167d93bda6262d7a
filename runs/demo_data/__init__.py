"""Synthetic runs of the article's shape, so that every page can be seen and measured at size.

    shape.py ── sizes, recipe ──> plan.py ── a pure, seeded simulation on a clock of its own ──> rows.py
                 behaviour.py, curves.py, faults.py: what one attempt, one step, one failure is like
                 texts.py, repositories.py: what agents and sandboxes wrote

`manage.py seed_demo` writes them; every run is labelled (`Run.is_demo`).
"""
