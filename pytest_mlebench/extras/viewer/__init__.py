"""The local web application over run groups: ``mlebench view``.

Every page is complete before a script has loaded, and uses the report's parts, colours and escaping. Agents' files are
untrusted: they are shown as text, never as markup, and are read only below the runs' folder. Links are not followed.
"""
