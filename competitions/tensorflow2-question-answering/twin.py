import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.labels import by_size, random_names
from pytest_mlebench.authoring.worlds.text import Facts, Statement, obvious

from .prepare import TEST_KEYS

NONE = {"start_token": -1, "candidate_index": -1, "end_token": -1}
Places = dict[tuple[str, int], int]
"""The first token of each statement, by its subject and relation."""
Predictions = dict[str, tuple[str, str]]
"""The simple and the best prediction for each row of the submission."""


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, other = by_size(size, 600, 2800, 8000), 6
    world, predictions = Facts(rng, relations=8), Predictions()
    ids = [int(id) for id in rng.integers(-(2**63), 2**63 - 1, n + other)]
    pages = random_names(rng, n + other, 9, "0123456789")
    examples = [_example(rng, world, id, page, predictions) for id, page in zip(ids, pages, strict=False)]
    _write(raw / "simplified-nq-train.jsonl", examples[:n])
    test = [{**{key: e[key] for key in TEST_KEYS}, "example_id": str(e["example_id"])} for e in examples[n:]]
    _write(raw / "simplified-nq-test.jsonl", test)
    rows = sorted(f"{e['example_id']}_{kind}" for e in test for kind in ("long", "short"))
    pd.DataFrame({"example_id": rows, "PredictionString": ""}).to_csv(raw / "sample_submission.csv", index=False)
    index = pd.Index(list(predictions), name="example_id")
    return {
        name: pd.DataFrame({"PredictionString": [pair[k] for pair in predictions.values()]}, index)
        for k, name in enumerate(("simple", "ceiling"))
    }


def units(submission: pd.DataFrame) -> "pd.Series[str]":
    return submission["example_id"].astype(str).str.rpartition("_")[0]


def _write(path: Path, examples: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(e, separators=(",", ":")) + "\n" for e in examples), encoding="utf-8")


def _example(rng: np.random.Generator, world: Facts, id: int, page: str, predictions: Predictions) -> dict[str, Any]:
    paragraphs = world.page(rng, subjects=int(rng.integers(2, 5)))
    tokens, candidates = ["<H1>", *paragraphs[0][0].subject.split(), "</H1>"], []
    places: Places = {}
    for paragraph in paragraphs:
        tag, start = ("P", "Table")[int(rng.random() < 0.1)], len(tokens)
        tokens.append(f"<{tag}>")
        for statement in paragraph:
            places[statement.subject, statement.relation] = len(tokens)
            tokens += [*statement.words, "."]
        tokens.append(f"</{tag}>")
        candidates.append({"start_token": start, "top_level": True, "end_token": len(tokens)})

    about = int(rng.integers(len(paragraphs)))
    asked = paragraphs[about][rng.integers(len(paragraphs[about]))]
    relation, kind = asked.relation, rng.random()
    long, short, yes_no, question = NONE, [], "NONE", ""
    best = "", ""
    if kind < 0.3:  # the page has no answer
        relation = world.missing(rng, paragraphs[about])
        question = world.question(rng, asked.subject, relation)
    else:
        long = {**candidates[about], "candidate_index": about}
        del long["top_level"]
        question = world.question(rng, asked.subject, relation)
        best = _span(candidates[about]), ""
        if kind < 0.4:  # a yes/no question
            right = rng.random() < 0.5
            other = [str(rng.integers(2000))] if asked.words[asked.value][0].isdigit() else tokens[1:2]
            question = f"is {' '.join(asked.words[asked.value] if right else other)} {question}"
            yes_no = "YES" if right else "NO"
            best = best[0], yes_no
        else:
            short = [_place(asked, places)]
            best = best[0], _span(short[0])
            if rng.random() < 0.08:  # the annotator did not find it
                long, short = (NONE, []) if rng.random() < 0.5 else (long, [])
    seen = obvious(paragraphs, relation)
    guess = "", ""
    if seen is not None:
        within = next(k for k, paragraph in enumerate(paragraphs) if any(s is seen for s in paragraph))
        guess = _span(candidates[within]), _span(_place(seen, places))
    predictions[f"{id}_long"], predictions[f"{id}_short"] = zip(guess, best, strict=False)
    annotation = {"yes_no_answer": yes_no, "long_answer": long, "short_answers": short}
    return {
        "document_text": " ".join(tokens),
        "long_answer_candidates": candidates,
        "question_text": question,
        "annotations": [annotation | {"annotation_id": int(rng.integers(0, 2**64 - 1, dtype=np.uint64))}],
        "document_url": f"https://en.wikipedia.org//w/index.php?title=Page&amp;oldid={page}",
        "example_id": id,
    }


def _place(statement: Statement, places: Places) -> dict[str, int]:
    start = places[statement.subject, statement.relation]
    return {"start_token": start + statement.value.start, "end_token": start + statement.value.stop}


def _span(tokens: dict[str, Any]) -> str:
    return f"{tokens['start_token']}:{tokens['end_token']}"
