#!/bin/bash
# Hidden tests: writes /logs/verifier/reward.json. Fixed paths: nothing here may follow what the agent left in PATH.
python=/usr/bin/python3
[ -x "$python" ] || python=/usr/local/bin/python3
exec "$python" -ISB /tests/grade.py
