"""pytest's hooks and what they do. No other package of the core imports pytest."""
