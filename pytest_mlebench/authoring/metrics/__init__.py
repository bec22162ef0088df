"""Metrics that scikit-learn, scipy and rapidfuzz lack. Graders import them from the modules."""
