from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link, link_files
from pytest_mlebench.authoring.tables import split, write_csv

from .columns import ANGLES
from .parquet import distinct_values, filter_parquet

PULSES = ["batch_id", "event_id", "first_pulse_index", "last_pulse_index"]


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_sides(*split(read_batches(raw), test_size=0.1), raw, public, private)


def read_batches(raw: Path) -> list[int]:
    return distinct_values(raw / "train_meta.parquet", "batch_id")


def write_sides(train: list[int], test: list[int], raw: Path, public: Path, private: Path) -> None:
    meta = raw / "train_meta.parquet"
    filter_parquet(meta, public / "train_meta.parquet", "batch_id", train, [*PULSES, *ANGLES])
    filter_parquet(meta, public / "test_meta.parquet", "batch_id", test, PULSES)
    answers = pd.read_parquet(meta, columns=["event_id", *ANGLES], filters=[("batch_id", "in", test)])
    write_csv(answers, private / "test.csv")
    write_csv(answers.assign(azimuth=1, zenith=1), public / "sample_submission.csv")
    link(raw / "sensor_geometry.csv", public / "sensor_geometry.csv")
    for name, batches in (("train", train), ("test", test)):
        link_files((f"batch_{batch}.parquet" for batch in batches), raw / "train", public / name)
