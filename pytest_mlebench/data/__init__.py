"""Where data comes from: downloads, the store, and helpers for preparers."""
