"""Episodes: a competition driven step by step from Python, for agents that learn."""
