"""The local web application over run groups: ``mlebench view``.

Every page is complete before a script has loaded, and has the report's parts, colours and escaping. What agents wrote
is untrusted: it is text, never markup, and it is read below the runs' folder alone, without following links.
"""
