#!/bin/bash
exec python3 -I "$AGENT_DIR/step_server.py"
