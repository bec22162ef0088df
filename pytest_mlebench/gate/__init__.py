"""Checks that prove a competition."""
