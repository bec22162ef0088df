import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

from .prepare import TEST_KEYS

WORDS = 'the sky is blue because <P> light </P> scatters , café 1/2 “quoted” <Table> 東京 " 😀 AT&T'.split()
URL = "https://en.wikipedia.org//w/index.php?title=A&amp;oldid="


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 1021, 6  # more than one block of a thousand lines
    ids = [int(id) for id in rng.integers(-(2**63), 2**63 - 1, n + n_test)]
    is_rich = rng.random(n) < 0.045
    train = [_example(rng, id, rich=rich) for id, rich in zip(ids[:n], is_rich, strict=True)]
    test = [_example(rng, id, rich=True) for id in ids[n:]]
    shown = [{**{key: example[key] for key in TEST_KEYS}, "example_id": str(example["example_id"])} for example in test]
    _write_lines(raw / "simplified-nq-train.jsonl", train)
    _write_lines(raw / "simplified-nq-test.jsonl", shown, ensure_ascii=True)
    rows = sorted(f"{example['example_id']}_{kind}" for example in test for kind in ("long", "short"))
    pd.DataFrame({"example_id": rows, "PredictionString": ""}).to_csv(raw / "sample_submission.csv", index=False)


def _write_lines(path: Path, examples: Iterable[dict[str, Any]], *, ensure_ascii: bool | None = None) -> None:
    """Write JSON lines. If ``ensure_ascii`` is None, examples with odd ids have escaped characters."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for example in examples:
            escaped = bool(example["example_id"] % 2) if ensure_ascii is None else ensure_ascii
            file.write(json.dumps(example, separators=(",", ":"), ensure_ascii=escaped) + "\n")


def _example(rng: np.random.Generator, id: int, *, rich: bool) -> dict[str, Any]:
    n_tokens = int(rng.integers(12, 30)) if rich else 3
    start, end = _span(rng, n_tokens)
    long = {"start_token": start, "candidate_index": 0, "end_token": end}
    short, yes_no = [], "NONE"
    kind = rng.random()
    if kind < 0.4:
        long = {"start_token": -1, "candidate_index": -1, "end_token": -1}
    elif kind < 0.5:
        yes_no = str(rng.choice(["YES", "NO"]))
        short = [(start, end)] if rich else []
    elif kind < 0.85:
        short = [_span(rng, n_tokens) for _ in range(1 if kind < 0.7 else 3)]
    candidates = []
    if rich:
        candidates = [{"start_token": start, "top_level": True, "end_token": end}]
        for _ in range(2):
            first, last = _span(rng, n_tokens)
            candidates.append({"start_token": first, "top_level": bool(rng.random() < 0.5), "end_token": last})
    return {
        "document_text": " ".join(rng.choice(WORDS, n_tokens)),
        "long_answer_candidates": candidates,
        "question_text": "why is " + " ".join(rng.choice(WORDS, 4)) if rich else "é?",
        "annotations": [
            {
                "yes_no_answer": yes_no,
                "long_answer": long,
                "short_answers": [{"start_token": first, "end_token": last} for first, last in short],
                "annotation_id": int(rng.integers(0, 2**64 - 1, dtype=np.uint64) if rich else rng.integers(0, 999)),
            }
        ],
        "document_url": f"{URL}{id}" if rich else "u",
        "example_id": id,
    }


def _span(rng: np.random.Generator, n_tokens: int) -> tuple[int, int]:
    start = int(rng.integers(0, n_tokens - 1))
    return start, int(rng.integers(start + 1, n_tokens + 1))


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    gold = pd.read_csv(private / "gold_submission.csv", keep_default_na=False)
    truth = gold.PredictionString
    is_short = gold.example_id.str.endswith("_short")
    # The last short answer instead of the first, and spans instead of yes or no.
    other = dict(zip(gold.example_id, truth, strict=True))
    for line in (private / "test.jsonl").read_text().splitlines():
        example = json.loads(line)
        for span in example["annotations"][0]["short_answers"][-1:]:
            other[example["example_id"] + "_short"] = f"{span['start_token']}:{span['end_token']}"

    def predicted(texts: Any) -> pd.DataFrame:
        return gold.assign(PredictionString=texts)

    def first(text: str) -> pd.DataFrame:
        return predicted([text, *noisy.PredictionString[1:]])

    chance = rng.random(len(gold))
    noisy = predicted(np.where(chance < 0.15, "", np.where(chance < 0.3, "1:3", truth)))
    return {
        "other_short_answers": predicted([other[id] for id in gold.example_id]),
        "all_predicted": predicted("0:1"),
        "only_long": predicted(np.where(is_short, "", truth)),
        "only_short": predicted(np.where(is_short, truth, "")),
        "yes_everywhere": predicted("YES"),
        "minus_one": predicted(truth.replace("", "-1:-1")),
        "with_spaces": predicted([f" {text.replace(':', ' : ')} " if text else "  " for text in truth]),
        "leading_zeros": predicted([f"0{text}" if ":" in text else text for text in truth]),
        "NA_text": predicted(truth.replace("", "NA")),
        "column_order": noisy[["PredictionString", "example_id"]],
        "extra_column": noisy.assign(confidence=0.5),
        "lower_case_yes": first("yes"),
        "three_parts": first("1:2:3"),
        "single_number": first("7"),
        "all_numbers": predicted(7),
        "fraction": first("1.0:2.0"),
        "text": first("blue"),
        "half_span": first("3:"),
        **standard(noisy, "example_id", "1_long", "PredictionString", "missing_column renamed_column renamed_id"),
    }
