#!/bin/bash
# Arguments: --api openai|anthropic|openrouter, --model NAME, --steps N (maximum steps per prompt).
set -eu
api=openai model= steps=100000
. "$AGENT_DIR/../options.sh"

# Contact only the model: no price list, no traces.
export LITELLM_LOCAL_MODEL_COST_MAP=True LITELLM_TELEMETRY=False OTEL_SDK_DISABLED=true OPENHANDS_SUPPRESS_BANNER=1
export MODEL="$api/$model" MODEL_URL="$url" MODEL_KEY="$key" STEPS="$steps"

cd "$CODE_DIR"
solve="/opt/openhands/bin/python $AGENT_DIR/solve.py"
exec bash "$AGENT_DIR/../ask.sh" "$solve" "$solve"
