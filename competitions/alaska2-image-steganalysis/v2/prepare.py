import hashlib
import random
from pathlib import Path

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = first.choose(raw)
    first.write_sides(train, test, keyed(raw, test), raw, public, private)


def keyed(raw: Path, test: list[str]) -> random.Random:
    """A generator whose key is a digest of the test images in all forms, of which each is public in one form alone."""
    key = hashlib.sha256()
    for folder in ("Cover", *first.METHODS):
        for name in test:
            key.update(hashlib.sha256((raw / folder / name).read_bytes()).digest())
    return random.Random(key.digest())
