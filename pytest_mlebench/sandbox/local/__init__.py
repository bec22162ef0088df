"""Agents as local processes, for trusted code: limited and cleaned up after, not isolated."""
