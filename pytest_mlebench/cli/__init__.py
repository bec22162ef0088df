"""The ``mlebench`` command, with a module for each group of subcommands."""
