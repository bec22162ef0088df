"""How results are shown: tables, terminal, CSV, JSON, Markdown, the page, plots."""
