# An agent that does what a test tells it: start.sh --script SCRIPT [ARGUMENT …]
shift
exec bash -c "$@"
