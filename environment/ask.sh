#!/bin/bash
# ask.sh FIRST [AGAIN] runs the command FIRST with the prompt as its standard input. With --until=limit, it then repeats
# AGAIN, which continues the same conversation, until the time is over. Each prompt states the remaining time and asks
# for a better result. It stops after three commands in a row that fail or end within 5 seconds: the budget is probably
# exhausted, or the provider down. The exit status is that of the last command. Without AGAIN, it logs that it cannot
# continue.
set -u
home=$(dirname "$(readlink -f "$0")")
command=$1 what=first failures=0
if [ "${UNTIL:-done}" = limit ] && [ $# -lt 2 ]; then
    echo "--until=limit: this agent cannot be asked again, so its run ends when it is done" >&2
fi
while :; do
    started=$(date +%s)
    bash "$home/prompt.sh" "$what" | bash -c "$command"
    status=$?
    now=$(date +%s)
    [ $# -gt 1 ] && [ "${UNTIL:-done}" = limit ] && [ $((${DEADLINE%.*} - now)) -gt 60 ] || exit $status
    if [ $status -eq 0 ] && [ $((now - started)) -ge 5 ]; then
        failures=0
    else
        failures=$((failures + 1))
        [ $failures -lt 3 ] || exit $status
        sleep 5
    fi
    command=$2 what=again
done
