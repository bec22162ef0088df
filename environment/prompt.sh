#!/bin/bash
# Prints the prompt, the same for all agents: instructions, the competition's description and the remaining time.
# `prompt.sh again` asks for a better result. A very long description is truncated, followed by the name of its file.
set -eu
home=$(dirname "$(readlink -f "$0")")
left=$((${DEADLINE%.*} - $(date +%s)))
if [ $left -ge 7200 ]; then
    left="$((left / 3600)) hours"
else
    left="$((left / 60)) minutes"
fi

if [ "${1:-}" = again ]; then
    echo "You have $left left. Improve your result: look at what you have, find what would raise the score most, and try it."
    echo "Replace $SUBMISSION_DIR/submission.csv only by what your own validation says is better. Nobody answers questions."
    exit
fi
cat "$home/instructions.txt"
echo "- Nobody answers questions: decide on your own, and work until you are done. You have $left left."
printf '\n# %s\n\n' "$DATA_DIR/description.md"
head -c 100000 "$DATA_DIR/description.md"
[ "$(wc -c <"$DATA_DIR/description.md")" -le 100000 ] || printf '\n[cut: the rest is in %s]\n' "$DATA_DIR/description.md"
