#!/bin/bash
# Needs bash, python3 and curl; to open 7z archives, py7zr or 7z.
set -eu
agent="${AGENT_DIR:-/home/agent}"
echo "== submission"
python3 "$agent/copy_sample.py"
echo
python3 "$agent/probe.py" "$@"
echo
echo "== what the checker says of the submission"
if ! curl --silent --show-error --max-time 60 --form "file=@${SUBMISSION_DIR:-/home/submission}/submission.csv" \
    "${VALIDATION_URL:-http://localhost:5000}/validate"; then
    echo "(no answer)"
fi
echo
