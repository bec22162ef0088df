"""Episodes: run a competition step by step from Python, to train agents."""
