"""Prepared data at a URL, for other machines: ``index`` is the format, ``source`` writes and reads it."""
