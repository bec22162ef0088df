#!/bin/bash
# Arguments: --model NAME, --effort low|medium|high (reasoning effort).
set -eu
model= effort=medium
. "$AGENT_DIR/../options.sh"

# Contact only the model: no telemetry, no updates, no web. Its own sandbox is off, because it does not work inside a
# container, which isolates the agent anyway.
mkdir -p ~/.codex
cat >~/.codex/config.toml <<TOML
model = "$model"
model_reasoning_effort = "$effort"
model_provider = "gateway"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
web_search = "disabled"

[model_providers.gateway]
name = "gateway"
base_url = "${OPENAI_BASE_URL:-https://api.openai.com/v1}"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = ${MODEL_ATTEMPTS:-15}
stream_max_retries = ${MODEL_ATTEMPTS:-15}

[analytics]
enabled = false

[feedback]
enabled = false
TOML

cd "$CODE_DIR"
options="--skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --json"
exec bash "$AGENT_DIR/../ask.sh" "codex exec $options -" "codex exec resume --last $options -"
