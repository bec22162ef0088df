from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.corrections import hold_out_groups

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = hold_out_groups(hotel_and_day, classes="hotel_id")(first.read_images(raw), test_size=0.1)
    first.write_sides(train, test, raw, public, private)


def hotel_and_day(images: pd.DataFrame) -> Iterator[tuple[int, str]]:
    return zip(images["hotel_id"], images["timestamp"].str[:10], strict=True)
