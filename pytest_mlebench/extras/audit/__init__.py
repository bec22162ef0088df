"""Audits of runs: scanners, a language model as judge, plagiarism detection, and familiarity of models."""
