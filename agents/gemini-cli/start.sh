#!/bin/bash
# Arguments: --model NAME, --turns N (maximum turns per prompt).
set -eu
model= turns=-1
. "$AGENT_DIR/../options.sh"

# Contact only the model: no telemetry, no updates, no web.
mkdir -p ~/.gemini
cat >~/.gemini/settings.json <<JSON
{
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "general": {
        "enableAutoUpdate": false, "enableAutoUpdateNotification": false, "disableAutoUpdate": true,
        "maxAttempts": ${MODEL_ATTEMPTS:-10}
    },
    "privacy": {"usageStatisticsEnabled": false},
    "telemetry": {"enabled": false},
    "tools": {"exclude": ["google_web_search", "web_fetch"], "sandbox": false, "shell": {"inactivityTimeout": 0}},
    "model": {"maxSessionTurns": $turns}
}
JSON
export GEMINI_CLI_TRUST_WORKSPACE=true GEMINI_TELEMETRY_ENABLED=false

cd "$CODE_DIR"
gemini="gemini --yolo --model $model --output-format stream-json"
exec bash "$AGENT_DIR/../ask.sh" "$gemini" "$gemini --resume latest"
