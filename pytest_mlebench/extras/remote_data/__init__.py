"""Prepared data at a URL, for other machines: ``index`` is the format, ``push`` writes it, ``pull`` reads it."""
