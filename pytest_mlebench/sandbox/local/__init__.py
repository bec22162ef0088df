"""Runs trusted agents as local processes: limited and cleaned up, but not isolated."""
