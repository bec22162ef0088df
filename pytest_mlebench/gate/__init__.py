"""Checks of competitions and their graders; ``gate.Gate`` has all of them."""
