from pathlib import Path

from pytest_mlebench.authoring.archives import write_zip, zip_member

from .. import synthetic as first
from ..synthetic import submissions as submissions

LONGER = {
    "of": "approximately",
    "and": "administration",
    "that": "international",
    "have": "nevertheless",
    "the": "notwithstanding",
    "to": "straightforward",
    "in": "uncomfortable",
}


def make(raw: Path, seed: int) -> None:
    """Use some long words, so that submitting the sentences unchanged earns no medal, as in the real data."""
    first.make(raw, seed)
    path = raw / "train_v2.txt.zip"
    with zip_member(path) as file:
        text = file.read().decode()
    for short, long in LONGER.items():
        text = text.replace(f" {short} ", f" {long} ")
    path.unlink()
    write_zip(path, {"train_v2.txt": text})
