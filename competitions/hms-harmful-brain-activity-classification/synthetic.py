from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pytest_mlebench.authoring.synthetic import malformed

from .labels import VOTES

CLASSES = ["Seizure", "LPD", "GPD", "LRDA", "GRDA", "Other"]
COLUMNS = [
    *("eeg_id", "eeg_sub_id", "eeg_label_offset_seconds"),
    *("spectrogram_id", "spectrogram_sub_id", "spectrogram_label_offset_seconds"),
    *("label_id", "patient_id", "expert_consensus", *VOTES),
]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows: list[list[Any]] = []
    labels = _numbers(rng, 10**8, 4 * 10**9, 1000)
    spectrograms = _numbers(rng, 353733, 2147388374, 84)
    eegs = _numbers(rng, 568657, 4294958358, 280)
    unused = iter(eegs)
    for spectrogram in spectrograms[:80]:
        patient = rng.integers(56, 65494)
        sub_id = 0
        for _ in range(rng.choice([1, 2, 3], p=[0.6, 0.3, 0.1])):
            eeg, offset = next(unused), 0.0
            for eeg_sub_id in range(rng.choice([1, 2, 4], p=[0.6, 0.25, 0.15])):
                votes = rng.multinomial(rng.choice([1, 2, 3, 5, 7, 13, 20]), rng.dirichlet(np.full(6, 0.4)))
                place = [eeg, eeg_sub_id, offset, spectrogram, sub_id, offset + 2 * sub_id]
                rows.append([*place, labels[len(rows)], patient, CLASSES[int(votes.argmax())], *votes])
                offset += float(2 * rng.integers(1, 9))
                sub_id += 1
    # the rows of a spectrogram are not adjacent
    table = pd.DataFrame(rows, columns=COLUMNS).sort_values("eeg_id", kind="stable")
    table.to_csv(raw / "train.csv", index=False)
    signals = {
        "train_eegs": table["eeg_id"].unique(),
        "train_spectrograms": table["spectrogram_id"].unique(),
        "test_eegs": eegs[-2:],
        "test_spectrograms": spectrograms[-2:],
    }
    for folder, ids in signals.items():
        (raw / folder).mkdir()
        for id in ids:
            values = pa.array(rng.normal(size=2).astype(np.float32))
            column = "Fp1" if "eeg" in folder else "LL_0.59"
            pq.write_table(pa.table({column: values}), raw / folder / f"{id}.parquet")
    test = pd.DataFrame({"spectrogram_id": spectrograms[-2:], "eeg_id": eegs[-2:], "patient_id": [7, 9]})
    test.to_csv(raw / "test.csv", index=False)
    sample = test[["eeg_id"]].assign(**dict.fromkeys(VOTES, 1 / 6))
    sample.to_csv(raw / "sample_submission.csv", index=False)
    (raw / "example_figures").mkdir()
    for number in range(2):
        (raw / "example_figures" / f"Sample0{number}.pdf").write_bytes(b"%%PDF-1.4 %d" % rng.integers(10**6))


def _numbers(rng: np.random.Generator, low: int, high: int, count: int) -> np.ndarray:
    return rng.permutation(np.unique(rng.integers(low, high, 2 * count)))[:count]


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    gold = pd.read_csv(private / "gold_submission.csv")
    n = len(gold)
    ids, truth = gold["eeg_id"], gold[VOTES].to_numpy()

    def table(probabilities: np.ndarray) -> pd.DataFrame:
        return gold[["eeg_id"]].join(pd.DataFrame(probabilities, columns=VOTES))

    # Only their order distinguishes the rows of a recording. If it is not that of the answers, all rows of a recording
    # must have the same prediction.
    recording, recordings = pd.factorize(ids)
    milli = rng.multinomial(1000, np.full(6, 1 / 6), len(recordings))
    milli[::5] = rng.multinomial(1000, [0.9, 0.1, 0, 0, 0, 0], len(milli[::5]))
    steady = table(milli[recording] / 1000)
    mixed = table(0.7 * truth + 0.3 * rng.dirichlet(np.ones(6), n))
    hard = table(np.eye(6)[truth.argmax(1)])

    def first_row(**values: object) -> pd.DataFrame:
        return steady.assign(**{name: [value, *steady[name][1:]] for name, value in values.items()})

    votes = steady.loc[0, VOTES].astype(float)
    most, least = votes.idxmax(), votes.idxmin()
    count = ids.map(ids.value_counts())
    twice = ids == ids[count > 1].min()
    other_id = ids.mask(ids.index == twice.idxmax(), ids[~twice].iloc[0])
    return {
        "mixed": mixed,
        "steady": steady,
        "steady_shuffled": steady.sample(frac=1, random_state=0),
        "column_order": mixed[[*VOTES[::-1], "eeg_id"]],
        "hard": hard,
        "all_wrong": table(np.eye(6)[truth.argmin(1)]),
        "nan_beside_one": hard.replace(0.0, np.nan),
        "nan_row": gold.assign(**{name: gold[name].mask(gold.index == 0) for name in VOTES}),
        "sum_within_tolerance": first_row(**{most: votes[most] + 4e-6}),
        "sum_outside_tolerance": first_row(**{most: votes[most] + 6e-6}),
        "unnormalised": steady.assign(seizure_vote=steady["seizure_vote"] + 0.1),
        "negative": first_row(**{least: -0.25, most: votes[most] + 0.25 + votes[least]}),
        "above_one": table(np.vstack([[1.5, -0.5, 0, 0, 0, 0], truth[1:]])),
        "nan_prediction": first_row(**{most: np.nan}),
        "text": first_row(lpd_vote="x"),
        "extra_zero_column": mixed.assign(extra=0.0),
        "extra_number_column": mixed.assign(extra=0.5),
        "extra_text_column": mixed.assign(note="x"),
        "wrong_multiplicity_uniform": table(np.full((n, 6), 1 / 6)).assign(eeg_id=other_id),
        "missing_id_column": mixed[VOTES],
        "one_row_a_recording": steady.drop_duplicates("eeg_id"),
        **malformed(mixed, "eeg_id", 1, "other_vote", "missing_column", without="duplicate_id"),
    }
