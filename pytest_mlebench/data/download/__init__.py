"""Where competitions' archives come from: the contract, and Kaggle."""
