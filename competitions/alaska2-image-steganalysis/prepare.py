import random
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from pytest_mlebench.data.authoring.files import link, link_files
from pytest_mlebench.data.authoring.tables import split, write_csv

METHODS = ["JMiPOD", "JUNIWARD", "UERD"]
TEST_IMAGES = 5000


def prepare(
    raw: Path,
    public: Path,
    private: Path,
    *,
    generator_of: Callable[[Path, list[str]], random.Random] = lambda raw, test: random.Random(0),
) -> None:
    covers = sorted(path.name for path in (raw / "Cover").glob("*.jpg"))
    n_test = TEST_IMAGES if len(covers) > TEST_IMAGES else len(covers) // 2
    train, test = split(covers, test_size=n_test, random_state=42)
    for folder in ("Cover", *METHODS):
        link_files({name: f"{k:05d}.jpg" for k, name in enumerate(train, start=1)}, raw / folder, public / folder)

    # Labels are drawn from this one generator in this order: that alone makes them the reference's.
    generator = generator_of(raw, test)
    generator.shuffle(test)
    folders = ["Cover" if generator.choice([True, False]) else generator.choice(METHODS) for _ in test]
    answers = pd.DataFrame(
        {"Id": [f"{k:04d}.jpg" for k in range(1, len(test) + 1)], "Label": [int(f != "Cover") for f in folders]}
    )
    for folder, name, id in zip(folders, test, answers["Id"], strict=True):
        link(raw / folder / name, public / "Test" / id)
    write_csv(answers, private / "test.csv")
    write_csv(answers.assign(Label=0), public / "sample_submission.csv")
