#!/bin/bash
exec python "$AGENT_DIR/react.py" "$@"
