from io import TextIOWrapper
from itertools import islice
from pathlib import Path

import numpy as np

from pytest_mlebench.authoring.archives import ZipWriter, zip_member

SENTENCES = 30_301_028
TEST_SHARE = 0.01
HEADER = '"id","sentence"\n'
_DRAWS = 256


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_sides(np.random.RandomState(0), raw, public, private)


def write_sides(random: np.random.RandomState, raw: Path, public: Path, private: Path) -> None:
    """Write the data; ``random`` draws the test sentences and the word that each loses."""
    gaps = private / "sample_submission.csv"
    with (
        zip_member(raw / "train_v2.txt.zip", "train_v2.txt") as packed,
        TextIOWrapper(packed, encoding="utf-8") as source,
        ZipWriter(public / "train_v2.txt.zip") as archive,
        archive.open("train_v2.txt") as member,
        TextIOWrapper(member, encoding="utf-8", newline="\n") as train,
        (private / "test.csv").open("x", encoding="utf-8", newline="\n") as answers,
        gaps.open("x", encoding="utf-8", newline="\n") as test,
    ):
        answers.write(HEADER)
        test.write(HEADER)
        lines = islice(source, SENTENCES)
        number = 0
        while True:
            train.writelines(islice(lines, _lines_before_test(random)))
            line = next(lines, None)
            if line is None:
                break
            if len(line.split()) <= 2:
                train.write(line)
                continue
            sentence = line.strip().replace('"', '""')
            words = sentence.split()
            del words[random.randint(1, len(words) - 1)]
            answers.write(f'{number},"{sentence}"\n')
            test.write(f'{number},"{" ".join(words)}"\n')
            number += 1
    with ZipWriter(public / "test_v2.txt.zip") as archive:
        archive.write("test_v2.txt", gaps)


def _lines_before_test(random: np.random.RandomState) -> int:
    """Draw a number for each line up to the next test candidate; return the number of lines before it."""
    before = 0
    while True:
        # A call for each of 30 million lines would be slow: draw many, then rewind to the first hit.
        state = random.get_state(legacy=False)
        hits = np.flatnonzero(random.uniform(size=_DRAWS) <= TEST_SHARE)
        if hits.size:
            random.set_state(state)
            random.uniform(size=hits[0] + 1)
            return before + int(hits[0])
        before += _DRAWS
