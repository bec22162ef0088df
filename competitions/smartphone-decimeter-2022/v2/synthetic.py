from pathlib import Path

import pandas as pd

from .. import synthetic as first
from ..synthetic import submissions as submissions


def make(raw: Path, seed: int) -> None:
    """The reference receiver's log contains every position."""
    first.make(raw, seed)
    for truth in sorted((raw / "train").rglob("ground_truth.csv")):
        rows = pd.read_csv(truth)
        positions = zip(rows["LatitudeDegrees"], rows["LongitudeDegrees"], strict=True)
        lines = [f"$GPGGA,,{latitude:.7f},N,{-longitude:.7f},W\n" for latitude, longitude in positions]
        (truth.parent / "supplemental" / "span_log.nmea").write_text("".join(lines))
