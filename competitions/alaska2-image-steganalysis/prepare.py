import random
from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link, link_files
from pytest_mlebench.authoring.tables import split, write_csv

METHODS = ["JMiPOD", "JUNIWARD", "UERD"]
TEST_IMAGES = 5000


def prepare(raw: Path, public: Path, private: Path) -> None:
    # The labels equal the reference's only if all draws use this generator, in this order.
    write_sides(*choose(raw), random.Random(0), raw, public, private)


def choose(raw: Path) -> tuple[list[str], list[str]]:
    """Return the names of the training images and of the test images."""
    covers = sorted(path.name for path in (raw / "Cover").glob("*.jpg"))
    n_test = TEST_IMAGES if len(covers) > TEST_IMAGES else len(covers) // 2
    return split(covers, test_size=n_test, random_state=42)


def write_sides(
    train: list[str], test: list[str], generator: random.Random, raw: Path, public: Path, private: Path
) -> None:
    """Write the data; ``generator`` draws the order of the test images, and which version of each is used."""
    for folder in ("Cover", *METHODS):
        link_files({name: f"{k:05d}.jpg" for k, name in enumerate(train, start=1)}, raw / folder, public / folder)

    generator.shuffle(test)
    folders = ["Cover" if generator.choice([True, False]) else generator.choice(METHODS) for _ in test]
    answers = pd.DataFrame(
        {"Id": [f"{k:04d}.jpg" for k in range(1, len(test) + 1)], "Label": [int(f != "Cover") for f in folders]}
    )
    for folder, name, id in zip(folders, test, answers["Id"], strict=True):
        link(raw / folder / name, public / "Test" / id)
    write_csv(answers, private / "test.csv")
    write_csv(answers.assign(Label=0), public / "sample_submission.csv")
