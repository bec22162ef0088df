from functools import partial

from .v1 import prepare as first

BATCHES = 5
"""A million events, as many as the original's test had."""

prepare = partial(first.prepare, test_size=BATCHES)
