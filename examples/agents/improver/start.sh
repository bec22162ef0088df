#!/bin/bash
bash "$AGENT_DIR/../prompt.sh" | python3 "$AGENT_DIR/improver.py" "$@"
