#!/bin/bash
# Arguments: --api openai|openrouter, --model NAME, --steps N (maximum steps of the agent; ignored with --until=limit).
set -euo pipefail
api=openai model= steps=50
. "$AGENT_DIR/../options.sh"
export MODEL="$model" OPENAI_BASE_URL="$url" OPENAI_API_KEY="$key" STEPS="$steps"

cd "$CODE_DIR"
bash "$AGENT_DIR/../prompt.sh" | python "$AGENT_DIR/solve.py"
