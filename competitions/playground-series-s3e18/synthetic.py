from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

FEATURES = """BertzCT Chi1 Chi1n Chi1v Chi2n Chi2v Chi3v Chi4n EState_VSA1 EState_VSA2 ExactMolWt FpDensityMorgan1
FpDensityMorgan2 FpDensityMorgan3 HallKierAlpha HeavyAtomMolWt Kappa3 MaxAbsEStateIndex MinEStateIndex NumHeteroatoms
PEOE_VSA10 PEOE_VSA14 PEOE_VSA6 PEOE_VSA7 PEOE_VSA8 SMR_VSA10 SMR_VSA5 SlogP_VSA3 VSA_EState9 fr_COO fr_COO2""".split()
SHARES = {"EC1": 0.66, "EC2": 0.8, "EC3": 0.3, "EC4": 0.28, "EC5": 0.14, "EC6": 0.16}


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 191 + seed
    molecules = pd.DataFrame({"id": np.arange(n)})
    for feature in FEATURES:
        values = rng.gamma(2, 20, n) * rng.choice([1, 1, -1])
        digits = int(rng.integers(0, 16))
        molecules[feature] = np.where(rng.random(n) < 0.15, 0.0, values.round(digits))
    for feature in ("fr_COO", "fr_COO2", "NumHeteroatoms"):
        molecules[feature] = rng.integers(0, 9, n)
    molecules.loc[0, FEATURES[0]] = 1234567.1234567891
    molecules.loc[1, FEATURES[1]] = 1e-17
    for label, share in SHARES.items():
        molecules[label] = (rng.random(n) < share).astype(int)
    molecules.to_csv(raw / "train.csv", index=False)
    test = molecules.drop(columns=list(SHARES)).head(9).assign(id=np.arange(n, n + 9))
    test.to_csv(raw / "test.csv", index=False)
    test[["id"]].assign(EC1=0.5, EC2=0.5).to_csv(raw / "sample_submission.csv", index=False)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")[["id", "EC1", "EC2"]]
    n = len(answers)
    first, second = (0.3 * answers[label] + 0.7 * rng.random(n) for label in ("EC1", "EC2"))
    noisy = answers.assign(EC1=first, EC2=second)
    return {
        **standard(noisy, "id", 99999, "EC1", "missing_column missing_id nan_prediction text_prediction infinite"),
        "ties": noisy.assign(EC1=first.round(1), EC2=second.round(1)),
        "one_constant": noisy.assign(EC2=0.25),
        "not_probabilities": noisy.assign(EC1=first * 100 - 30, EC2=-second),
        "integers": noisy.assign(EC1=(first > 0.5).astype(int), EC2=(second > 0.5).astype(int)),
        "mixed_types": noisy.assign(EC1=first > 0.5),
        "booleans": noisy.assign(EC1=first > 0.5, EC2=second > 0.5),
        "column_order_and_extra": noisy.assign(EC3=0.5)[["EC2", "EC3", "id", "EC1"]],
        "float_ids": noisy.assign(id=noisy.id.astype(float)),
    }
