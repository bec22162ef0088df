"""Harbor, both ways: competitions as its task folders, and its jobs as run groups."""
