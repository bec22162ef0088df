#!/bin/bash
# Arguments: --model NAME, --turns N (maximum turns per prompt).
set -eu
model= turns=
. "$AGENT_DIR/../options.sh"

# Contact only the model: no telemetry, no updates, no web.
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 DISABLE_TELEMETRY=1 DISABLE_ERROR_REPORTING=1
# Retry for longer than the provider's usual outages.
export CLAUDE_CODE_MAX_RETRIES="${MODEL_ATTEMPTS:-15}"
# A command may train a model for as long as there is time.
export BASH_DEFAULT_TIMEOUT_MS=3600000 BASH_MAX_TIMEOUT_MS="${TIME_LIMIT_SECS%.*}000"
# Otherwise it would also use a smaller model, which the variant does not name.
export ANTHROPIC_MODEL=$model ANTHROPIC_SMALL_FAST_MODEL=$model ANTHROPIC_DEFAULT_HAIKU_MODEL=$model

cd "$CODE_DIR"
claude="claude --print --verbose --output-format stream-json --dangerously-skip-permissions --model $model \
    ${turns:+--max-turns $turns} --disallowedTools WebFetch,WebSearch"
exec bash "$AGENT_DIR/../ask.sh" "$claude" "$claude --continue"
