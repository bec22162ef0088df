"""What preparers share: tables, files, archives and rarer formats, and synthetic data."""
