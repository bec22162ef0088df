from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value
from pytest_mlebench.authoring.tables import split

SMOKING = ["Ex-smoker", "Never smoked", "Currently smokes"]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    patients = sorted({f"ID{number:05d}63720217{rng.integers(10**8, 10**9)}" for number in range(7, 427, 4)})
    _, held_out = split(patients, test_size=0.1)
    rows = []
    for patient in patients:
        visits = 2 if patient == max(held_out) else int(rng.integers(3, 7))
        weeks = np.sort(rng.choice(np.arange(-5, 14), visits, replace=False))
        if patient not in held_out and rng.random() < 0.1:
            weeks = np.sort([*weeks[1:], weeks[-1]])  # two visits in one week
        capacity, typical = int(rng.integers(1200, 4200)), rng.uniform(2500, 4500)
        age, sex, smoking = int(rng.integers(49, 89)), rng.choice(["Male", "Female"]), rng.choice(SMOKING)
        for visit, week in enumerate(weeks):
            fvc = max(800, int(capacity - 8 * week + rng.integers(-150, 150)))
            smokes = None if visit == 0 and patient == min(held_out) else smoking
            rows.append((patient, week, fvc, 100 * fvc / typical, age, sex, smokes))
    columns = ["Patient", "Weeks", "FVC", "Percent", "Age", "Sex", "SmokingStatus"]
    table = pd.DataFrame(rows, columns=columns)
    # neither a patient's visits nor the patients are always in order
    table = table.iloc[np.argsort(np.arange(len(table)) + 4 * rng.random(len(table)), kind="stable")]
    table.to_csv(raw / "train.csv", index=False)
    for patient in [*patients, "ID99999637202170000000000"]:
        for slice in range(1, int(rng.integers(2, 4))):
            _write_slice(raw / "train" / patient / f"{slice}.dcm", rng)
    old = table.drop_duplicates("Patient").head(2)
    old.to_csv(raw / "test.csv", index=False)
    for patient in old["Patient"]:
        _write_slice(raw / "test" / patient / "1.dcm", rng)
    sample = pd.DataFrame({"Patient_Week": old["Patient"] + "_0", "FVC": 2000, "Confidence": 100})
    sample.to_csv(raw / "sample_submission.csv", index=False)


def _write_slice(path: Path, rng: np.random.Generator) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(rng.bytes(12))


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    n = len(answers)
    truth = answers["FVC"].fillna(2500)
    good = answers[["Patient_Week"]].assign(
        FVC=(truth + 180 * rng.standard_normal(n)).round(2), Confidence=(60 + rng.gamma(2, 90, n)).round(1)
    )
    weeks, fvc = good["Patient_Week"], good["FVC"]
    known = answers.dropna(subset="FVC").sort_values(["Patient", "Weeks"])
    last = known.groupby("Patient").tail(3)["Patient_Week"]
    counts = weeks.isin(last)
    two = good[weeks.isin(last.iloc[:2])]
    hole = weeks == last.iloc[4]
    odd = np.arange(n) % 2
    return {
        "noisy": good,
        "noisy_shuffled": good.sample(frac=1, random_state=2),
        "perfect": good.assign(FVC=truth, Confidence=70),
        "tiny_and_negative_confidence": good.assign(Confidence=np.where(odd, 1e-9, -500)),
        "huge_confidence": good.assign(Confidence=1e12),
        "far_off": good.assign(FVC=np.where(odd, -1e9, 1e9)),
        "infinite_fvc": good.assign(FVC=np.inf),
        **first_value(good, "Confidence", empty_confidence=None, text_confidence="sure"),
        "all_confidence_empty": good.assign(Confidence=None),
        "columns_swapped_with_extra": good.assign(Patient="x")[["Confidence", "Patient", "FVC", "Patient_Week"]],
        "only_the_last_three": good[counts],
        "only_two_of_the_last_three": two,
        "without_one_that_counts": good[~hole],
        "without_one_that_does_not_count": good.drop(index=good.index[~counts][3]),
        "none_that_counts": good[~counts],
        "repeats_one_that_counts": pd.concat([good, good[hole]]),
        "repeats_one_that_does_not_count": pd.concat([good, good[~counts].head(1)]),
        "one_row_twice": pd.concat([two.head(1), two.head(1).assign(FVC=1500)]),
        "empty_fvc_that_counts": good.assign(FVC=fvc.mask(hole)),
        "empty_fvc_that_does_not_count": good.assign(FVC=fvc.where(counts)),
        "missing_confidence": good[["Patient_Week", "FVC"]],
        "missing_fvc": good[["Patient_Week", "Confidence"]],
        "renamed_id": good.rename(columns={"Patient_Week": "id"}),
        "unknown_week": pd.concat([good, good.head(1).assign(Patient_Week=weeks.iloc[0] + "99")]),
        "text_fvc": good.assign(FVC=["low", *fvc.iloc[1:]]),
        "header_only": good.head(0),
        "empty.csv": "",
    }
