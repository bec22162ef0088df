# For start scripts: sets variables from the script's arguments, and finds the provider's API.
#
#     model= turns=30                 # arguments with their defaults: --model NAME --turns N
#     . "$AGENT_DIR/../options.sh"
#
# If the variable api is set (openai, anthropic or openrouter), this also sets url and key for that provider.
while [ $# -gt 0 ]; do
    if [ $# -lt 2 ] || ! [[ $1 =~ ^--[a-z]+$ ]] || ! declare -p "${1#--}" >/dev/null 2>&1; then
        echo "$0: unknown argument $*" >&2
        exit 2
    fi
    printf -v "${1#--}" %s "$2"
    shift 2
done
if [ -n "${api:-}" ]; then
    case $api in
        openai) url=${OPENAI_BASE_URL:-https://api.openai.com/v1} key=$OPENAI_API_KEY ;;
        anthropic) url=${ANTHROPIC_BASE_URL:-https://api.anthropic.com} key=$ANTHROPIC_API_KEY ;;
        openrouter) url=${OPENROUTER_BASE_URL:-https://openrouter.ai/api/v1} key=$OPENROUTER_API_KEY ;;
        *) echo "$0: unknown API $api" >&2; exit 2 ;;
    esac
fi
