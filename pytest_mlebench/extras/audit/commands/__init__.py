"""The commands of the audit."""
