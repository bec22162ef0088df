from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import malformed

NAMES = """affenpinscher afghan_hound african_hunting_dog airedale american_staffordshire_terrier appenzeller
australian_terrier basenji basset beagle bedlington_terrier bernese_mountain_dog black-and-tan_coonhound
blenheim_spaniel bloodhound bluetick border_collie border_terrier borzoi boston_bull bouvier_des_flandres boxer
brabancon_griffon briard brittany_spaniel bull_mastiff cairn cardigan chesapeake_bay_retriever chihuahua chow clumber
cocker_spaniel collie curly-coated_retriever dandie_dinmont dhole dingo doberman english_foxhound english_setter
english_springer entlebucher eskimo_dog flat-coated_retriever french_bulldog german_shepherd
german_short-haired_pointer giant_schnauzer golden_retriever gordon_setter great_dane great_pyrenees
greater_swiss_mountain_dog groenendael ibizan_hound irish_setter irish_terrier irish_water_spaniel irish_wolfhound
italian_greyhound japanese_spaniel keeshond kelpie kerry_blue_terrier komondor kuvasz labrador_retriever
lakeland_terrier leonberg lhasa malamute malinois maltese_dog mexican_hairless miniature_pinscher miniature_poodle
miniature_schnauzer newfoundland norfolk_terrier norwegian_elkhound norwich_terrier old_english_sheepdog otterhound
papillon pekinese pembroke pomeranian pug redbone rhodesian_ridgeback rottweiler saint_bernard saluki samoyed
schipperke scotch_terrier scottish_deerhound sealyham_terrier shetland_sheepdog shih-tzu siberian_husky silky_terrier
soft-coated_wheaten_terrier staffordshire_bullterrier standard_poodle standard_schnauzer sussex_spaniel
tibetan_mastiff tibetan_terrier toy_poodle toy_terrier vizsla walker_hound weimaraner welsh_springer_spaniel
west_highland_white_terrier whippet wire-haired_fox_terrier yorkshire_terrier"""
BREEDS = NAMES.split()


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 190 + 11 * seed
    ids = sorted(rng.bytes(16).hex() for _ in range(n))
    breed = rng.permutation((BREEDS * 2)[:n])
    pd.DataFrame({"id": ids, "breed": breed}).to_csv(raw / "labels.csv", index=False)
    test_ids = [rng.bytes(16).hex() for _ in range(3)]
    for folder, names in (("train", ids), ("test", test_ids)):
        (raw / folder).mkdir()
        for name in names:
            (raw / folder / f"{name}.jpg").write_bytes(b"\xff\xd8" + rng.bytes(3))
    sample = pd.DataFrame({"id": test_ids, **dict.fromkeys(BREEDS, 0.00833333333333)})
    sample.to_csv(raw / "sample_submission.csv", index=False)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    one_hot = answers[BREEDS].to_numpy()
    n, k = one_hot.shape
    rows, true = np.arange(n), one_hot.argmax(1)

    def table(probabilities: np.ndarray) -> pd.DataFrame:
        return answers[["id"]].join(pd.DataFrame(probabilities, columns=BREEDS))

    sparse = np.zeros((n, k))
    for row in rows:
        others = rng.choice(np.delete(np.arange(k), true[row]), 3, replace=False)
        weights = rng.multinomial(1000, rng.dirichlet(np.ones(4))) / 1000
        sparse[row, others] = weights[1:]
        sparse[row, true[row] if rng.random() < 0.8 else rng.integers(k)] += weights[0]
    good = table(sparse.round(3))
    dense = rng.dirichlet(np.ones(k) * 0.5, n)
    dense = (dense * 0.5 + 0.5 * one_hot).round(4)
    dense[rows, true] += 1 - dense.sum(1)
    certain = np.zeros((n, k), dtype=int)
    certain[rows, np.where(rng.random(n) < 0.7, true, 0)] = 1
    hard = table(certain)

    def first_row(*values: Any) -> pd.DataFrame:
        """Give the first row these values for the true breed and the next ones, else 0; other rows are certain."""
        cells = certain.astype(object)
        cells[0] = 0
        cells[0, (true[0] + np.arange(len(values))) % k] = values
        return table(cells)

    return {
        **malformed(hard, "id", "f" * 32, "pug", "missing_column missing_id"),
        "sparse": good,
        "sparse_shuffled": good.sample(frac=1, random_state=0),
        "dense": table(dense),
        "hard_ints": hard,
        "all_wrong": table(np.roll(one_hot, 1, axis=1)),
        "column_order_and_extra": good[["whippet", "id", *(b for b in BREEDS[::-1] if b != "whippet")]].assign(
            extra="x"
        ),
        "sum_slightly_low": first_row(0.49999, 0.5),
        "sum_slightly_high": first_row(0.5, 0.50001),
        "sum_too_low": first_row(0.49998, 0.5),
        "sum_too_high": first_row(0.5, 0.50002),
        "negative_value": first_row(0.7, 0.5, -0.2),
        "above_one": first_row(1.2, -0.2),
        "a_hair_above_one": first_row(1.000001),
        "nan_beside_full_row": first_row(1, None),
        "text_value": first_row("high"),
        "not_normalised": table(np.ones((n, k), dtype=int)),
    }
