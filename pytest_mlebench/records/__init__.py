"""Stored records of runs and run groups."""
