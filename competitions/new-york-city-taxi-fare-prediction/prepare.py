import tempfile
from pathlib import Path

import numpy as np

from pytest_mlebench.authoring.files import link
from pytest_mlebench.authoring.tables import read_csv, split, write_csv

from .lines import pick_lines

TEST_ROWS = 9914  # independent of the size of the data
# Explicit, so that no column is read as integers in some chunks and as floats in others.
TYPES = {
    "key": str,
    "fare_amount": float,
    "pickup_datetime": str,
    "pickup_longitude": float,
    "pickup_latitude": float,
    "dropoff_longitude": float,
    "dropoff_latitude": float,
    "passenger_count": int,
}


def prepare(raw: Path, public: Path, private: Path) -> None:
    with tempfile.TemporaryDirectory(dir=public.parent) as name:
        scratch = Path(name)
        rides = _rewrite(raw / "train.csv", scratch / "rides.csv")
        train, test = split(np.arange(rides), test_size=TEST_ROWS)
        pick_lines(scratch / "rides.csv", train, public / "labels.csv", scratch=scratch)
        pick_lines(scratch / "rides.csv", test, private / "test.csv", scratch=scratch)
    answers = read_csv(private / "test.csv", dtype=TYPES)
    write_csv(answers.drop(columns="fare_amount"), public / "test.csv")
    write_csv(answers[["key"]].assign(fare_amount=11.35), public / "sample_submission.csv")
    link(raw / "GCP-Coupons-Instructions.rtf", public / "GCP-Coupons-Instructions.rtf")


def _rewrite(source: Path, target: Path) -> int:
    """Write 55 million rides in pandas' format, chunk by chunk; returns their number."""
    rides = 0
    for chunk in read_csv(source, dtype=TYPES, chunksize=1_000_000):
        write_csv(chunk, target, mode="a", header=not rides)
        rides += len(chunk)
    return rides
