"""Where data comes from: the store, and helpers for preparers (tables, files, archives)."""
