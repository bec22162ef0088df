#!/bin/sh
# Grades the submission. A reward of 0 is written first, so that there is one whatever the submission does.
python=/opt/mlebench/grading/venv/bin/python
@PULL@mkdir -p /logs/verifier
printf '{"reward": 0.0, "valid": 0, "above_median": 0, "bronze": 0, "silver": 0, "gold": 0}\n' >/logs/verifier/reward.json
exec $python -I /tests/verify.py
