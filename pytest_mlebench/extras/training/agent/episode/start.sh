#!/bin/bash
exec python3 -I -S "$AGENT_DIR/step_server.py"
