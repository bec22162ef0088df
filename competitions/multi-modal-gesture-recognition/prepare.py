import random
from pathlib import Path, PurePosixPath

import pandas as pd

from pytest_mlebench.authoring.archives import tar_names
from pytest_mlebench.authoring.files import link, link_files
from pytest_mlebench.authoring.tables import hold_out, read_csv, write_csv

GESTURES = range(1, 21)
FILES = [
    *(f"training{number}.tar.gz" for number in (1, 2, 3)),
    *(f"validation{number}.tar.gz" for number in (1, 2, 3)),
    "devel01-40.7z",
    "valid_all_files_combined.7z",
    "sample_code_mmrgc.zip",
]


def prepare(raw: Path, public: Path, private: Path) -> None:
    samples = map(PurePosixPath, tar_names(raw / "training4.tar.gz"))
    test_ids = sorted(path.stem[-4:] for path in samples if path.suffix == ".zip" and len(path.parts) == 1)
    train, answers = hold_out(read_csv(raw / "training.csv", dtype=str), "Id", test_ids)
    write_csv(train, public / "training.csv")
    write_csv(answers, private / "test.csv")
    test = pd.DataFrame({"Id": test_ids})
    write_csv(test, public / "test.csv")
    rng = random.Random(0)
    guesses = [" ".join(map(str, rng.sample(GESTURES, len(GESTURES)))) for _ in test_ids]
    write_csv(test.assign(Sequence=guesses), public / "randomPredictions.csv")
    link(raw / "training4.tar.gz", public / "test.tar.gz")
    link_files(FILES, raw, public)
