"""The pytest plugin: hooks, collectors, fixtures and checks."""
