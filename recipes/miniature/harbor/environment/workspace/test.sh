#!/bin/sh
# Runs the visible tests (tests.txt) on m.py. When some fail, it lists one-token edits of the function of the
# first failure, the most suspicious line first. `try K` applies edit K to the original module and tests it.
exec python3 -ISB "$(dirname "$0")/.tools/check.py"
