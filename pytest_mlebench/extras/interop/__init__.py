"""Exports to other systems' formats."""
