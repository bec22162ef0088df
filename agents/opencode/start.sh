#!/bin/bash
# Arguments: --api openai|anthropic|openrouter, --model NAME, --turns N (maximum turns per prompt).
set -eu
api=openai model= turns=100000
. "$AGENT_DIR/../options.sh"
case $api in
    openai) package=@ai-sdk/openai ;;
    anthropic) package=@ai-sdk/anthropic url=$url/v1 ;;
    openrouter) package=@ai-sdk/openai-compatible ;;
esac

# Contact only the model: no sharing, no updates, no web, no list of models.
mkdir -p ~/.config/opencode
cat >~/.config/opencode/opencode.json <<JSON
{
    "autoupdate": false,
    "share": "disabled",
    "permission": {"*": "allow", "webfetch": "deny", "websearch": "deny", "question": "deny"},
    "agent": {"build": {"steps": $turns}},
    "provider": {"gateway": {
        "npm": "$package",
        "options": {"baseURL": "$url", "apiKey": "$key", "timeout": false},
        "models": {"$model": {"tool_call": true}}
    }},
    "small_model": "gateway/$model"
}
JSON
export OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1
export OPENCODE_DISABLE_DEFAULT_PLUGINS=1 OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS="${TIME_LIMIT_SECS%.*}000"

cd "$CODE_DIR"
opencode="opencode run --model gateway/$model"
exec bash "$AGENT_DIR/../ask.sh" "$opencode" "$opencode --continue"
