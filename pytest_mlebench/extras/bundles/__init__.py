"""Run groups packed so that others can verify them."""
