import hashlib
import random
from pathlib import Path

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = first.choose(raw)
    first.write_sides(train, test, keyed(raw, test), raw, public, private)


def keyed(raw: Path, test: list[str]) -> random.Random:
    """Return a generator seeded with all versions of the test images. Only one version of each image is public."""
    key = hashlib.sha256()
    for folder in ("Cover", *first.METHODS):
        for name in test:
            key.update(hashlib.sha256((raw / folder / name).read_bytes()).digest())
    return random.Random(key.digest())
