"""Present results: tables, terminal output, CSV, JSON, Markdown, the HTML page and plots."""
