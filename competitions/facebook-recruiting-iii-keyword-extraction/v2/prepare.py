from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.corrections import hold_out_groups
from pytest_mlebench.authoring.tables import read_csv, write_csv

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    parts = first.blocks(raw, usecols=["Title", "Body"], keep_default_na=False)
    questions = np.concatenate([_digests(rows["Title"] + "\0" + rows["Body"]) for rows in parts])
    train, test = hold_out_groups(lambda rows: questions[rows])(np.arange(len(questions)), test_size=0.1)
    first.write_sides(train, test, first.blocks(raw, keep_default_na=False), public, private)
    sample = public / "sample_submission.csv"
    write_csv(read_csv(sample, usecols=["Id", "Tags"]), sample)


def _digests(texts: "pd.Series[str]") -> np.ndarray:
    """Return 64-bit hashes, because millions of questions do not fit in memory."""
    return pd.util.hash_array(texts.to_numpy(dtype=object), categorize=False)
