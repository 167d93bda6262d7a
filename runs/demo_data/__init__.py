"""Synthetic runs of the article's shape, so that every page can be seen and measured at size.

    shape.py ── sizes, recipe ──> plan.py ── a pure, seeded simulation on a clock of its own ──> records.py
                  ▲ behaviour, curves, step_metrics, faults: what an attempt, a step, a failure is like  │
                                                                                                         ▼
    seed.py <── rows, fleet_rows, failure_rows, tokens <── turns <── texts, repositories: what was written

`manage.py seed_demo` writes them; every run is labelled (`Run.is_demo`).
"""
