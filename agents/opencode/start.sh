#!/bin/bash
# Arguments: --api openai|anthropic|openrouter, --model NAME, --turns N (the most that it may take for one prompt).
set -eu
api=openai model= turns=100000
while [ $# -gt 1 ]; do
    case $1 in
        --api) api=$2 ;;
        --model) model=$2 ;;
        --turns) turns=$2 ;;
        *) echo "unknown argument $1" >&2; exit 2 ;;
    esac
    shift 2
done
case $api in
    openai) package=@ai-sdk/openai url=${OPENAI_BASE_URL:-https://api.openai.com/v1} key=$OPENAI_API_KEY ;;
    anthropic) package=@ai-sdk/anthropic url=${ANTHROPIC_BASE_URL:-https://api.anthropic.com}/v1 key=$ANTHROPIC_API_KEY ;;
    openrouter)
        package=@ai-sdk/openai-compatible url=${OPENROUTER_BASE_URL:-https://openrouter.ai/api/v1} key=$OPENROUTER_API_KEY ;;
    *) echo "unknown API $api" >&2; exit 2 ;;
esac

# Nothing but the model is asked: no sharing, no updates, no web, no list of models.
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
