#!/bin/bash
set -eu

# What AIDE reads: the general instructions, how it differs here, and the competition.
cat "${INSTRUCTIONS:-/home/instructions.txt}" "${AGENT_DIR}/additional_notes.txt" /home/data/description.md > "${AGENT_DIR}/task.md"

cd "${AGENT_DIR}"
exec python solve.py \
    data_dir=/home/data \
    desc_file="${AGENT_DIR}/task.md" \
    exp_name=exp \
    log_dir="${AGENT_DIR}/logs" \
    workspace_dir="${AGENT_DIR}/workspaces" \
    copy_data=False \
    generate_report=False \
    "$@"
