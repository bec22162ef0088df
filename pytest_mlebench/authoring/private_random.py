"""Randomness that nobody outside can repeat: it depends on a key that is kept with the answers.

Code and data of competitions are public, so whatever is drawn with a fixed seed can be drawn again, and with it what
the draw decides. Corrected versions draw with ``private_generator``. While real data is prepared, the key is that of
the data store. Synthetic data has no answers to keep, and goldens need the same draws everywhere: without a key the
generator has seed 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

_KEY: ContextVar[bytes | None] = ContextVar("key of private randomness", default=None)


@contextmanager
def keyed(key: bytes | None) -> Iterator[None]:
    """Have ``private_generator`` use this key, of 64 bytes at most, in this context."""
    token = _KEY.set(key)
    try:
        yield
    finally:
        _KEY.reset(token)


def private_generator(purpose: str) -> np.random.RandomState:
    """A generator that starts anew at each call; those of different purposes are independent of each other."""
    key = _KEY.get()
    if key is None:
        return np.random.RandomState(0)
    digest = hashlib.blake2b(purpose.encode(), key=key).digest()
    return np.random.RandomState(np.frombuffer(digest, dtype="<u4"))
