"""Checks that prove a competition: ``gate.Gate`` has all of them."""
