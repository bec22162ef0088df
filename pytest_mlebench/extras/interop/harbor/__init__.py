"""Harbor: exports competitions as task folders, and imports jobs as run groups."""
