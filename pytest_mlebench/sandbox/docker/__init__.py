"""Runs agents in containers."""
