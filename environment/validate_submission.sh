#!/bin/bash
# Checks whether a submission is well formed: validate_submission.sh FILE. It never shows a score.
set -u
if [ $# -ne 1 ]; then
    echo "usage: $0 FILE" >&2
    exit 2
fi
if [ ! -f "$1" ]; then
    echo "$1 is not a file" >&2
    exit 2
fi
name=${1//\\/\\\\}  # quoted, since curl splits names at , and ;
name=${name//\"/\\\"}
curl --silent --show-error --max-time 600 --form "file=@\"$name\"" "${VALIDATION_URL:-http://localhost:5000}/validate"
status=$?
echo
exit $status
