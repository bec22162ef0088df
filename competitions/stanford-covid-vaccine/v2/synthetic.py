import json
from pathlib import Path

from .. import synthetic as first
from ..synthetic import submissions as submissions


def make(raw: Path, seed: int) -> None:
    """Every second molecule has the sequence of the previous one, except for one base."""
    first.make(raw, seed)
    molecules = [json.loads(line) for line in (raw / "train.json").read_text().splitlines()]
    for one, other in zip(molecules[::2], molecules[1::2], strict=False):
        other["sequence"] = "G" + one["sequence"][1:]
    (raw / "train.json").write_text("".join(json.dumps(molecule) + "\n" for molecule in molecules))
