"""General helpers without domain knowledge: files, locks, processes, units, progress."""
