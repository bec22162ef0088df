"""MLE-bench as a pytest suite: a competition is a folder, a run of an agent on it is a test, a medal is its outcome."""

__version__ = "0.1.0"
