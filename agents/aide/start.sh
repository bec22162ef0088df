#!/bin/bash
set -eu

# AIDE's task: the prompt of all agents, and notes on what is different for AIDE.
{ bash "${AGENT_DIR}/../prompt.sh" && cat "${AGENT_DIR}/additional_notes.txt"; } > "${AGENT_DIR}/task.md"

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
