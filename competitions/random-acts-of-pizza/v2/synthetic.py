import json
from pathlib import Path

from .. import synthetic as first
from ..columns import TARGET
from ..synthetic import submissions as submissions


def make(raw: Path, seed: int) -> None:
    """The giver of every pizza is known, so the leak reveals all outcomes."""
    first.make(raw, seed)
    path = raw / "train.json"
    requests = json.loads(path.read_text())
    for request in requests:
        request["giver_username_if_known"] = "giver" if request[TARGET] else "N/A"
    path.write_text(json.dumps(requests))
