from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 120
    group = np.sort(rng.integers(1, 60, n))
    member = pd.Series(group).groupby(group).cumcount() + 1
    passengers = pd.DataFrame(
        {
            "PassengerId": [f"{g:04d}_{m:02d}" for g, m in zip(group, member, strict=True)],
            "HomePlanet": rng.choice(["Earth", "Europa", "Mars", None], n),
            "CryoSleep": rng.choice([True, False, None], n),
            "Cabin": [
                f"{deck}/{number}/{side}"
                for deck, number, side in zip(
                    rng.choice(list("ABCDEFG"), n), rng.integers(0, 99, n), rng.choice(["P", "S"], n), strict=True
                )
            ],
            "Destination": rng.choice(["TRAPPIST-1e", "55 Cancri e", "PSO J318.5-22"], n),
            "Age": rng.integers(0, 80, n).astype(float),
            "VIP": rng.choice([True, False], n),
            "RoomService": rng.gamma(1, 200, n).round(),
            "Name": [f"Pass Enger{i}" for i in range(n)],
            "Transported": rng.random(n) < 0.5,
        }
    )
    passengers.loc[rng.choice(n, 5, replace=False), "Age"] = np.nan
    passengers.to_csv(raw / "train.csv", index=False)
    passengers.drop(columns="Transported").head(40).to_csv(raw / "test.csv", index=False)
    passengers[["PassengerId"]].head(40).assign(Transported=False).to_csv(raw / "sample_submission.csv", index=False)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")[["PassengerId", "Transported"]]
    truth = answers["Transported"]
    noisy = answers.assign(Transported=np.where(rng.random(len(answers)) < 0.3, ~truth, truth))
    return {
        "as_01": noisy.assign(Transported=noisy["Transported"].astype(int)),
        "as_text": noisy.assign(Transported="yes"),
        **standard(
            noisy,
            "PassengerId",
            "9999_99",
            "Transported",
            "missing_column renamed_column nan_prediction",
            without="unknown_id header_only",
        ),
    }
