"""Metrics that scikit-learn, scipy and rapidfuzz do not have, by kind; graders import from the modules."""
