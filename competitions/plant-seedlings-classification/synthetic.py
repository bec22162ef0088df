from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, png, standard

SPECIES = [
    *("Black-grass", "Charlock", "Cleavers", "Common Chickweed", "Common wheat", "Fat Hen", "Loose Silky-bent"),
    *("Maize", "Scentless Mayweed", "Shepherds Purse", "Small-flowered Cranesbill", "Sugar beet"),
]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 165, 8
    names = [f"{i:09x}.png" for i in rng.choice(16**9, n + n_test, replace=False)]
    for k, name in enumerate(names[:n]):
        folder = raw / "train" / (SPECIES[k] if k < len(SPECIES) else str(rng.choice(SPECIES)))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(_image(rng))
    # entries that are not training images
    (raw / "train" / "Maize" / "Thumbs.db").write_bytes(b"x")
    (raw / "train" / "Maize" / "notes.PNG").write_bytes(b"x")
    (raw / "train" / "readme.png").write_bytes(b"x")
    (raw / "test").mkdir()
    for name in names[n:]:
        (raw / "test" / name).write_bytes(_image(rng))
    pd.DataFrame({"file": names[n:], "species": "Sugar beet"}).to_csv(raw / "sample_submission.csv", index=False)


def _image(rng: np.random.Generator) -> bytes:
    rows = b"".join(rng.bytes(6) for _ in range(2))
    return png(np.frombuffer(rows, np.uint8).reshape(2, 2, 3))


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    n = len(answers)
    noisy = answers.assign(species=np.where(rng.random(n) < 0.4, rng.choice(SPECIES, n), answers.species))
    following = dict(zip(SPECIES, [*SPECIES[1:], SPECIES[0]], strict=True))

    return {
        **standard(noisy, "file", "zzz.png", "species", "missing_column renamed_column"),
        "constant_maize": answers.assign(species="Maize"),
        "all_wrong": answers.assign(species=answers.species.map(following)),
        **first_value(noisy, "species", one_unknown_species="Dandelion", nan=None, one_number=7),
        "lower_case": noisy.assign(species=noisy.species.str.lower()),
        "trailing_space": noisy.assign(species=noisy.species + " "),
        "column_order": noisy[["species", "file"]],
        "extra_column": noisy.assign(confidence=0.5),
        "all_nan": noisy.assign(species=None),
        "numbers": noisy.assign(species=noisy.species.map(SPECIES.index)),
    }
