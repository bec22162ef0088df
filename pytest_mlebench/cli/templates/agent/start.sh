#!/bin/bash
set -eu
exec python3 "${AGENT_DIR:-/home/agent}/agent.py" "$@"
