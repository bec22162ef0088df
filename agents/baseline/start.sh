#!/bin/bash
set -eu
# More threads would compete for processors if the agent may use fewer than the machine has.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}"
exec python3 "$(dirname "$0")/baseline.py" "$@"
