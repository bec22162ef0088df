"""pytest: the hooks, and what happens behind them. Nothing outside of this room imports pytest."""
