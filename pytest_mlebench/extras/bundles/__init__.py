"""Run groups packed so that somebody else can verify them."""
