import string
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.tables import split
from pytest_mlebench.authoring.worlds.labels import by_size, hidden_score, positive_probabilities

from .synthetic import TEST_ROWS

LETTERS = np.array(list(string.ascii_uppercase[:20]))
FLOATS = [0, 1, 2, 3, 4, 5, 6, 19, 20, 21, 22, 23, 24, 25, 26, 28]
WHOLE = [7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 29, 30]


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    """The test always has 100,000 rows. To keep the files small, most rows lack the sixteen measured columns."""
    n = TEST_ROWS + by_size(size, 1000, 6000, 30000)
    measured = rng.normal(size=(n, len(FLOATS))).round(1)
    measured[rng.random(n) < 0.7] = np.nan
    counted = np.minimum(rng.poisson(rng.uniform(0.8, 4, len(WHOLE)), (n, len(WHOLE))), 9)
    letters = np.minimum(rng.geometric(0.25, (n, 10)) - 1, 19)

    # the world: how readings determine a machine's state. Codes matter by letters at places, and by distinct letters
    distinct = (np.diff(np.sort(letters, axis=1), axis=1) > 0).sum(axis=1) + 1
    known = np.column_stack([np.nan_to_num(measured), counted, np.minimum(letters, 6)[:, rng.permutation(10)[:5]]])
    simple, score = hidden_score(known, rng, together=1.2)
    p = positive_probabilities(score + 0.5 * rng.choice([-1, 1]) * (distinct - 6), accuracy=0.85, positive=0.49)

    table = pd.DataFrame(measured, columns=[f"f_{k:02d}" for k in FLOATS])
    table = table.join(pd.DataFrame(counted, columns=[f"f_{k:02d}" for k in WHOLE]))
    table = table.assign(f_27=LETTERS[letters].view("<U10").ravel(), target=(rng.random(n) < p).astype(int))
    table = table[[*sorted(table.columns[:-1]), "target"]].rename_axis("id")
    table.to_csv(raw / "train.csv")
    (raw / "test.csv").write_text("id\n900000\n")
    (raw / "sample_submission.csv").write_text("id,target\n900000,0.5\n")
    return {name: _renumbered(values) for name, values in (("simple", _share(simple)), ("ceiling", p))}


def _share(score: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-score))


def _renumbered(target: np.ndarray) -> pd.DataFrame:
    """Return the targets by prepare.py's new ids: first the training rows, then the test rows in their order."""
    order = np.concatenate(split(np.arange(len(target)), test_size=TEST_ROWS))
    return pd.DataFrame({"target": target[order].round(6)}, pd.RangeIndex(len(target), name="id"))
