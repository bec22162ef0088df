"""Generates answers and a submission of the full data's size from a competition's small synthetic data.

The synthetic rows are copied. Each copy has a number that is put in front of its ids (after a minus sign), in answers
and submission alike. So matching rows still match, integers remain integers, and the rest of the id can be parsed as
before. Fractional predictions get the number as additional decimals, so that there are as many distinct values, ranks
and ties as in real data.

Fields are handled as text. A copy replaces one marker character in the CSV text: a million rows take a second.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.exceptions import EXCEPTIONS, Shape
from pytest_mlebench.authoring.tables import read_header
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.gate.golden import synthetic_submissions

SIZES: dict[str, dict[str, int]] = json.loads(Path(__file__).with_name("sizes.json").read_text())["sizes"]

# Characters of Unicode's private use area mark what differs between copies, and the end of a row.
COPY, VARIANT, END = "\ue000", "\ue001", "\ue002"
_DECIMALS = 10
_LONGEST_INT64 = 18


@dataclass(frozen=True)
class FullSize:
    """Prepared data with only the answers, and a submission for it."""

    dataset: Dataset
    submission: Path
    answers_rows: int
    submission_rows: int


def make(
    competition: Competition, synthetic: Dataset, folder: Path, *, max_submission_bytes: float = math.inf
) -> FullSize:
    """Write both to the folder, with the sizes in ``sizes.json``, rounded up to whole copies.

    There are fewer copies, but at least one, if the submission would exceed ``max_submission_bytes``.
    """
    shape = EXCEPTIONS.get(competition.id, Shape())
    ids = shape.ids or (read_header(synthetic.sample_submission)[0],)
    rng = np.random.default_rng(0)
    submission = _read(_worst_submission(competition, synthetic, folder / "synthetic"))
    dataset = Dataset(competition, folder)
    dataset.answers.parent.mkdir(parents=True)
    is_table = synthetic.answers.suffix == ".csv"
    answers = _read(synthetic.answers) if is_table else pd.DataFrame()
    for content in shape.contents:
        answers, submission = content(answers, submission, rng)
    for column, times in shape.longer.items():
        answers, submission = (_longer(table, column, times) for table in (answers, submission))
    if is_table:
        header, block = _template(answers, ids, shape)
    else:
        header, block = "", _json_template(synthetic.answers.read_text(encoding="utf-8"), ids, shape)
    rows = len(answers) if is_table else block.count("\n")
    sizes = SIZES[competition.id]
    submission_header, submission_block = _template(_finer(submission, ids, shape), ids, shape)
    most = max(max_submission_bytes // len(submission_block.encode()), 1)
    copies = math.ceil(sizes["answers"] / rows)
    submission_copies = max(copies, math.ceil(sizes["submission"] / len(submission)))
    submission_copies = int(min(submission_copies, most))
    if not shape.more_in_submission:
        copies = submission_copies
    numbers = range(start := 10 ** len(str(submission_copies)), start + submission_copies)
    with dataset.answers.open("w", encoding="utf-8", newline="") as file:
        file.write(header)
        file.writelines(_copies(block.replace(END, ""), numbers[:copies], shape.variants))
    lines = [
        line + "\n"
        for copy in _copies(submission_block, numbers, shape.variants)
        for line in copy.split(f"{END}\n")[:-1]
    ]
    with (path := folder / "submission.csv").open("w", encoding="utf-8", newline="") as file:
        file.write(submission_header)
        file.writelines(lines if shape.keep_order else map(lines.__getitem__, rng.permutation(len(lines)).tolist()))
    return FullSize(dataset, path, copies * rows, len(lines))


def _worst_submission(competition: Competition, synthetic: Dataset, folder: Path) -> Path:
    """A valid submission, noisy and in another order than the answers if there is one."""
    paths = synthetic_submissions(competition, synthetic, folder)
    valid = sorted(name for name in competition.golden["scores"] if "columns" not in name)
    wanted = ["noisy_shuffled.csv", *(name for name in valid if "shuffled" in name), "noisy.csv"]
    return next((paths[name] for name in wanted if name in valid), synthetic.perfect_submission)


def _read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def _longer(table: pd.DataFrame, column: str, times: int) -> pd.DataFrame:
    """Repeat each text, each time with other words, so that names in it remain distinct."""
    if column not in table:
        return table
    return table.assign(
        **{
            column: [
                " ".join(f"{word}{n or ''}" for n in range(times) for word in text.split()) for text in table[column]
            ]
        }
    )


def _finer(submission: pd.DataFrame, ids: tuple[str, ...], shape: Shape) -> pd.DataFrame:
    fraction = re.compile(r"(-?\d+\.(?=\d*[1-9])\d+)")

    def finer(text: str) -> str:
        if not fraction.fullmatch(text):
            return text
        whole, _, decimals = text.partition(".")
        return f"{whole}.{decimals[:_DECIMALS]:0<{_DECIMALS}}{COPY}"

    return submission.assign(
        **{c: submission[c].map(finer) for c in submission.columns if c not in {*ids, *shape.variants}}
    )


def _template(table: pd.DataFrame, ids: tuple[str, ...], shape: Shape) -> tuple[str, str]:
    """The CSV file's header, and its rows with the markers inserted."""
    marked = table.assign(**{c: _numbered(table[c], COPY) for c in ids if c in table})
    for column in shape.variants:
        if column in table:
            marked[column] = [
                " ".join(_numbered(pd.Series(text.split(), dtype=str), VARIANT)) for text in table[column]
            ]
    header, _, block = marked.to_csv(index=False, lineterminator=f"{END}\n").partition(f"{END}\n")
    return header + "\n", block


def _repeated(times: int) -> Callable[[re.Match[str]], str]:
    return lambda match: f"{match[1]} " * times


def _json_template(lines: str, ids: tuple[str, ...], shape: Shape) -> str:
    for key in ids:
        lines = re.sub(rf'("{key}":"?-?)', rf"\1{COPY}", lines)
    for key, times in shape.longer.items():
        lines = re.sub(rf'(?<="{key}":")([^"]+)', _repeated(times), lines)
    return lines


def _numbered(values: pd.Series, sign: str) -> list[str]:
    return [f"-{sign}{text[1:]}" if re.match(r"-\d", text) else sign + text for text in values]


def _copies(block: str, numbers: range, variants: dict[str, int]) -> Iterator[str]:
    # Ids that already fill 64 bits lose leading digits instead of growing.
    digits = len(str(numbers[-1])) if numbers else 0
    block = re.sub(
        rf"{COPY}(\d{{{_LONGEST_INT64 - digits + 1},}})(?=[,\n{END}])",
        lambda match: COPY + match[1][-(_LONGEST_INT64 - digits) :],
        block,
    )
    many = max(variants.values(), default=1)
    for number in numbers:
        copy = block.replace(COPY, str(number))
        yield copy.replace(VARIANT, str(10 ** len(str(many)) + number % many)) if variants else copy
