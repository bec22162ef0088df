"""The subcommands of ``mlebench``, by what they work on; each module's ``add`` makes their parsers."""
