#!/bin/sh
# Grades the submission. A reward stands from the start, so that no failure leaves none.
mkdir -p /logs/verifier
printf '{"reward": 0.0, "valid": 0, "above_median": 0, "bronze": 0, "silver": 0, "gold": 0}\n' >/logs/verifier/reward.json
exec /opt/mlebench/grading/venv/bin/python -I /tests/verify.py
