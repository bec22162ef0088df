"""Runs: executing, recording and regrading them, the files that agents left, and run groups."""
