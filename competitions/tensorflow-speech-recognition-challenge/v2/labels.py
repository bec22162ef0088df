COMMANDS = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"]
SILENCE, UNKNOWN = "silence", "unknown"
LABELS = [*COMMANDS, SILENCE, UNKNOWN]
