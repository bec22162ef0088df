"""The ``mlebench`` command, a module for each group of sub-commands."""
