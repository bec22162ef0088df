#!/bin/sh
# Checks whether a submission is well formed: validate_submission.sh FILE. It never shows a score.
if [ $# -ne 1 ]; then
    echo "usage: $0 FILE" >&2
    exit 2
fi
exec /opt/mlebench/grading/venv/bin/python -P /opt/mlebench/checker/check.py "$1"
