import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd

from pytest_mlebench.data.authoring.archives import write_zip
from pytest_mlebench.data.authoring.corrections import without_fields
from pytest_mlebench.data.authoring.tables import split, write_csv
from pytest_mlebench.errors import DataError

from .columns import TARGET


def prepare(raw: Path, public: Path, private: Path, *, secret: Collection[str] = ()) -> None:
    """``secret`` are fields that no public file may hold."""
    requests, old_test = _read(raw / "train.json"), _read(raw / "test.json")
    train, test = split(requests, test_size=len(old_test) / (len(requests) + len(old_test)))
    _write(public, "train", without_fields(train, secret))
    _write(
        public, "test", without_fields([{field: request[field] for field in old_test[0]} for request in test], secret)
    )
    answers = pd.DataFrame(test)[["request_id", TARGET]].astype({TARGET: int})
    write_csv(answers, private / "test.csv")
    write_csv(answers.assign(**{TARGET: 0}), public / "sampleSubmission.csv")


def _read(path: Path) -> list[dict[str, Any]]:
    requests = json.loads(path.read_bytes())
    if any(request.keys() != requests[0].keys() for request in requests):
        raise DataError(f"the requests in {path} do not all have the same fields")
    return requests


def _write(public: Path, name: str, requests: list[dict[str, Any]]) -> None:
    path = public / f"{name}.json"
    path.write_text(json.dumps(requests, indent=4))
    write_zip(public / f"{name}.zip", {path.name: path})
