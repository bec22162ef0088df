import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from pytest_mlebench.authoring.tables import split, write_csv

BLOCK = 1000
TEST_KEYS = ["example_id", "question_text", "document_text", "long_answer_candidates"]


def prepare(raw: Path, public: Path, private: Path) -> None:
    gold: list[tuple[str, str]] = []
    with (
        (public / "simplified-nq-train.jsonl").open("x", encoding="ascii", newline="\n") as train_file,
        (public / "simplified-nq-test.jsonl").open("x", encoding="ascii", newline="\n") as test_file,
        (private / "test.jsonl").open("x", encoding="ascii", newline="\n") as answers_file,
        (raw / "simplified-nq-train.jsonl").open("rb") as lines,
    ):
        while block := list(islice(lines, BLOCK)):
            train, test = split(block, test_size=0.1)
            for line in train:
                train_file.write(_dump(_example(line)))
            for line in test:
                example = _example(line)
                answers_file.write(_dump(example))
                test_file.write(_dump({key: example[key] for key in TEST_KEYS}))
                gold.extend(_gold_rows(example))
    rows = pd.DataFrame(gold, columns=["example_id", "PredictionString"])
    write_csv(rows, private / "gold_submission.csv")
    write_csv(rows.assign(PredictionString=""), public / "sample_submission.csv")


def _example(line: bytes) -> dict[str, Any]:
    example: dict[str, Any] = json.loads(line)
    example["example_id"] = str(example["example_id"])
    return example


def _dump(example: dict[str, Any]) -> str:
    """Return a line of JSON in the format of pandas' ``to_json``."""
    return json.dumps(example, separators=(",", ":")).replace("/", r"\/") + "\n"


def _gold_rows(example: dict[str, Any]) -> Iterator[tuple[str, str]]:
    annotation = example["annotations"][0]
    long, short = annotation["long_answer"], annotation["short_answers"]
    yes_no = annotation["yes_no_answer"]
    yield f"{example['example_id']}_short", yes_no if yes_no != "NONE" else _span(short[0]) if short else ""
    yield f"{example['example_id']}_long", _span(long) if long["start_token"] != -1 else ""


def _span(tokens: dict[str, int]) -> str:
    return f"{tokens['start_token']}:{tokens['end_token']}"
