#!/bin/bash
# Arguments: --api openai|anthropic|openrouter, --model NAME, --steps N (maximum model calls per prompt).
set -eu
api=openai model= steps=0
. "$AGENT_DIR/../options.sh"

# Contact only the model: no price list. Skip the dialog for the first-time configuration.
export LITELLM_LOCAL_MODEL_COST_MAP=True LITELLM_TELEMETRY=False MSWEA_CONFIGURED=true MSWEA_SILENT_STARTUP=1
export MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT="${MODEL_ATTEMPTS:-15}"

cd "$CODE_DIR"
mini="/opt/mini/bin/python $AGENT_DIR/solve.py --agent-class solve.Continuing --yolo --exit-immediately --model $api/$model --output $LOGS_DIR/mini.json \
    -c mini.yaml -c $AGENT_DIR/task.yaml -c agent.step_limit=$steps -c environment.timeout=${TIME_LIMIT_SECS%.*} \
    -c environment.cwd=$CODE_DIR -c model.model_kwargs.api_base=$url -c model.model_kwargs.max_retries=0"
solve="$mini --task \"\$(cat)\""
exec bash "$AGENT_DIR/../ask.sh" "$solve" "$solve"
