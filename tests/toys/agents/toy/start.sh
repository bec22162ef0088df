#!/bin/bash
# Does on purpose what other agents do by mistake.
while [ $# -gt 0 ]; do
    case "$1" in
        --right) right="$2" ;;
        --do) do="$2" ;;
    esac
    shift 2
done
if [ -n "${right:-}" ]; then
    # The ids are 80 to 99; the first `right` of them get the right answer.
    { echo id,odd; for k in $(seq 0 19); do echo $((80 + k)),$(( (k + (k < right ? 0 : 1)) % 2 )); done; } > "$SUBMISSION_DIR/submission.csv"
    echo "wrote a submission with $right right answers"
fi
case "${do:-}" in
    nonsense) echo "this, is not" > "$SUBMISSION_DIR/submission.csv" ;;
    nothing) echo "nothing to do" ;;
    pause) sleep 2 ;;
    sleep) echo "going to sleep"; trap "" TERM; sleep 1000 ;;
    memory) python3 -c "
blocks = []
while True:
    blocks.append(bytearray(10_000_000))
" ;;
    crash) echo "about to crash"; exit 3 ;;
    flood) head -c 100000000 /dev/zero | tr '\0' 'x'; echo; echo "the last line" ;;
    daemons) (setsid sleep 987654 &) ; nohup sleep 987653 > /dev/null 2>&1 & ;;
    secret) echo "the token is $TOKEN" | tee "$LOGS_DIR/token.txt" "$CODE_DIR/token.py" ;;
esac
