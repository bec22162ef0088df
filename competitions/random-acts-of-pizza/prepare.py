import json
from pathlib import Path
from typing import Any

import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.tables import split, write_csv
from pytest_mlebench.errors import DataError

from .columns import TARGET

Requests = list[dict[str, Any]]


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_sides(*choose(raw), public, private)


def choose(raw: Path) -> tuple[Requests, Requests, list[str]]:
    """Return the training requests, the test requests, and the public fields of the latter."""
    requests, old_test = _read(raw / "train.json"), _read(raw / "test.json")
    train, test = split(requests, test_size=len(old_test) / (len(requests) + len(old_test)))
    return train, test, list(old_test[0])


def write_sides(train: Requests, test: Requests, fields: list[str], public: Path, private: Path) -> None:
    _write(public, "train", train)
    _write(public, "test", [{field: request[field] for field in fields} for request in test])
    answers = pd.DataFrame(test)[["request_id", TARGET]].astype({TARGET: int})
    write_csv(answers, private / "test.csv")
    write_csv(answers.assign(**{TARGET: 0}), public / "sampleSubmission.csv")


def _read(path: Path) -> Requests:
    requests = json.loads(path.read_bytes())
    if any(request.keys() != requests[0].keys() for request in requests):
        raise DataError(f"the requests in {path} do not all have the same fields")
    return requests


def _write(public: Path, name: str, requests: Requests) -> None:
    path = public / f"{name}.json"
    path.write_text(json.dumps(requests, indent=4))
    write_zip(public / f"{name}.zip", {path.name: path})
