from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

STEPS = 10


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 65, 10
    ids = rng.choice(np.arange(1, 400), n + n_test, replace=False)
    train = _breaths(rng, ids[:n])
    train = _numbered(pd.concat([train.iloc[3:], train.iloc[:3]]))  # one breath is in two places
    train.loc[5, "pressure"] = -1.8957442945646408
    train.loc[6, "u_in"] = 1.2345678901234e-05
    test = _numbered(_breaths(rng, ids[n:]).drop(columns="pressure"))
    train.to_csv(raw / "train.csv", index=False)
    test.to_csv(raw / "test.csv", index=False)
    test[["id"]].assign(pressure=0).to_csv(raw / "sample_submission.csv", index=False)


def _numbered(steps: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"id": range(1, len(steps) + 1)}).join(steps.reset_index(drop=True))


def _breaths(rng: np.random.Generator, ids: Iterable[int]) -> pd.DataFrame:
    return pd.concat([_breath(rng, id) for id in ids], ignore_index=True)


def _breath(rng: np.random.Generator, id: int) -> pd.DataFrame:
    time = np.r_[0, np.cumsum(rng.uniform(0.03, 0.034, STEPS - 1))]
    resistance, compliance = rng.choice([5, 20, 50]), rng.choice([10, 20, 50])
    closed, open_wide, opening = rng.random(STEPS) < 0.15, rng.random(STEPS) < 0.1, rng.gamma(2, 5, STEPS)
    breathing_out = np.arange(STEPS) >= rng.integers(4, 7)
    in_steps, steps, free = rng.random(STEPS) < 0.7, rng.integers(0, 500, STEPS), rng.normal(15, 9, STEPS)
    return pd.DataFrame(
        {
            "breath_id": id,
            "R": resistance,
            "C": compliance,
            "time_step": time,
            "u_in": np.where(closed, 0.0, np.where(open_wide, 100.0, opening)),
            "u_out": breathing_out.astype(int),
            "pressure": np.where(in_steps, steps * 0.07030214545121 + 4.1, free),
        }
    )


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    n = len(answers)
    breathing_out = answers.index[answers.u_out == 1]
    breathing_in = answers.index[answers.u_out == 0]

    def predicted(pressure: Any) -> pd.DataFrame:
        return answers[["id"]].assign(pressure=pressure)

    def put(rows: pd.Index, value: Any) -> pd.DataFrame:
        changed = noisy.astype({"pressure": object})
        changed.loc[rows, "pressure"] = value
        return changed

    noisy = predicted(answers.pressure + rng.normal(0, 2, n))
    return {
        "column_order_extra": noisy.assign(u_out=1, extra="x")[["extra", "pressure", "u_out", "id"]],
        "constant": predicted(15),
        "extreme": predicted(np.where(rng.random(n) < 0.5, 1e12, -1e12)),
        "wrong_while_breathing_out": put(breathing_out, -999.0),
        "nan_while_breathing_out": put(breathing_out[:2], np.nan),
        "nan_while_breathing_in": put(breathing_in[:2], np.nan),
        "infinite": put(breathing_in[:1], np.inf),
        "text_while_breathing_out": put(breathing_out[:2], "x"),
        "text_while_breathing_in": put(breathing_in[:2], "x"),
        "id_as_float": noisy.assign(id=noisy.id.astype(float)),
        "ids_of_the_raw_file": noisy.assign(id=noisy.id + 7),
        "missing_scored_rows_only": noisy.loc[breathing_in],
        **standard(noisy, "id", 10**6, "pressure", "missing_column renamed_column"),
    }
