#!/bin/bash
# Needs bash, python3 and curl, and py7zr or 7z for 7z archives.
set -eu
agent="${AGENT_DIR:-/home/agent}"
echo "== submission"
python3 "$agent/copy_sample.py"
echo
python3 "$agent/probe.py" "$@"
echo
echo "== the checker's result for the submission"
if ! curl --silent --show-error --max-time 60 --form "file=@${SUBMISSION_DIR:-/home/submission}/submission.csv" \
    "${VALIDATION_URL:-http://localhost:5000}/validate"; then
    echo "(no answer)"
fi
echo
