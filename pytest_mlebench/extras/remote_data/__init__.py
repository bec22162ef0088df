"""Prepared data at a URL, for other machines: ``index`` is the format, ``source`` writes it, ``pull`` reads it."""
