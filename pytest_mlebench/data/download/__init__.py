"""Downloads of competitions' archives from Kaggle."""
