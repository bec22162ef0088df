import csv
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard, write_zipped_csv
from pytest_mlebench.authoring.tables import read_zipped_csv

from .. import synthetic as first
from ..labels import CLASSES

COPIES = 5


def make(raw: Path, seed: int) -> None:
    """Each comment occurs several times, with different case or spacing; one is the word NA."""
    first.make(raw, seed)
    path = raw / "train.csv.zip"
    comments = read_zipped_csv(path, keep_default_na=False)
    comments.loc[0, "comment_text"] = "NA"
    copies = []
    for copy in range(COPIES):
        texts = comments["comment_text"]
        changed = texts.str.upper() if copy % 2 else texts.str.replace(" ", "  " if copy else " ")
        ids = [f"{copy}" + sha256(f"{copy}{id}".encode()).hexdigest()[:15] for id in comments["id"]]
        copies.append(comments.assign(id=ids, comment_text=changed))
    path.unlink()
    table = pd.concat(copies).sample(frac=1, random_state=seed)
    write_zipped_csv(path, table, "train.csv", quoting=csv.QUOTE_NONNUMERIC)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    labels = answers[CLASSES].to_numpy()
    scores = pd.DataFrame(np.clip(0.25 + 0.3 * labels + rng.normal(0, 0.25, labels.shape), 0, 1), columns=CLASSES)
    noisy = answers[["id"]].join(scores)
    return {
        "logits": noisy.assign(**(scores * 30 - 12)),
        "inverted": noisy.assign(**(1 - scores)),
        "one_constant_class": noisy.assign(threat=0.1),
        "classes_permuted": noisy[["id", *CLASSES[::-1]]],
        "extra_column": noisy.assign(extra=0.5),
        **standard(noisy, "id", "zzzz", "threat", "missing_column missing_id nan_prediction text_prediction infinite"),
    }
