#!/bin/bash
# Arguments: --api openai|openrouter, --model NAME, --steps N (the most steps of the agent).
set -eu
api=openai model= steps=50
. "$AGENT_DIR/../options.sh"
export MODEL="$model" OPENAI_BASE_URL="$url" OPENAI_API_KEY="$key" STEPS="$steps"

cd "$CODE_DIR"
exec bash "$AGENT_DIR/../ask.sh" "python $AGENT_DIR/solve.py"
