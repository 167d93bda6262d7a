"""The trainer: a process of its own that holds the policy's weights and optimizer.

`driver` starts and commands it (standard library only, for Celery workers); the rest is inside it.
"""
