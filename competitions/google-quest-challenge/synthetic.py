from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, malformed
from pytest_mlebench.authoring.tables import split

from .prepare import RARE

QUESTION = """asker_intent_understanding body_critical conversational expect_short_answer fact_seeking
    has_commonly_accepted_answer interestingness_others interestingness_self multi_intent not_really_a_question
    opinion_seeking type_choice type_compare type_consequence type_definition type_entity type_instructions
    type_procedure type_reason_explanation type_spelling well_written""".split()
ANSWER = """helpful level_of_information plausible relevance satisfaction type_instructions type_procedure
    type_reason_explanation well_written""".split()
TARGETS = [f"question_{name}" for name in QUESTION] + [f"answer_{name}" for name in ANSWER]
LEVELS = [0, 0.5, 1, 0.25, 1 / 3, 2 / 3, 0.333333, 0.8888890000000001]
WORDS = 'how do I use the cafe naïve “lens” C++ a, b "quoted" $x^2$ &gt; 日本 why isn\'t'.split(" ")


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_questions = 181, 140
    question = rng.integers(0, n_questions, n)  # some questions have several answers
    titles = [_text(rng, 4) for _ in range(n_questions)]
    bodies = [_text(rng, 8) for _ in range(n_questions)]
    pairs = pd.DataFrame(
        {
            "qa_id": np.sort(rng.choice(9000, n, replace=False)),
            "question_title": [titles[k] for k in question],
            "question_body": [bodies[k] for k in question],
            "question_user_name": [f"user{k % 40}" for k in question],
            "question_user_page": [f"https://site.example/users/{k % 40}" for k in question],
            "answer": [_text(rng, 7) for _ in range(n)],
            "answer_user_name": rng.choice(["Ana", "Björn", "NA", "o'Neil", "x, y"], n),
            "answer_user_page": "https://site.example/users/7",
            "url": [f"https://site.example/q/{k}" for k in question],
            "category": rng.choice(["TECHNOLOGY", "CULTURE", "LIFE_ARTS"], n),
            "host": "site.example",
        }
    )
    for target in TARGETS:
        pairs[target] = rng.choice(LEVELS, n, p=[0.3, 0.2, 0.3, 0.12, 0.02, 0.02, 0.02, 0.02])
    # With odd seeds, the rare target is 0 in all held-out rows; with even seeds, it is not.
    kept, held_out = split(np.arange(n), test_size=0.1)
    pairs[RARE] = 0.0
    pairs.loc[rng.choice(np.sort(kept), 5, replace=False), RARE] = [1 / 3, 1.0, 2 / 3, 0.5, 1.0]
    if seed % 2 == 0:
        pairs.loc[rng.choice(held_out, 2, replace=False), RARE] = [1 / 3, 1.0]
    pairs.to_csv(raw / "train.csv", index=False)
    pairs.drop(columns=TARGETS).head(4).to_csv(raw / "test.csv", index=False)
    sample = pairs[["qa_id"]].head(4).assign(**dict.fromkeys(TARGETS, 0.5))
    sample.to_csv(raw / "sample_submission.csv", index=False)


def _text(rng: np.random.Generator, n_words: int) -> str:
    words = rng.choice(WORDS, n_words)
    return "".join(word + rng.choice([" ", " ", " ", "\n", "\r\n", ", "]) for word in words).rstrip()


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    n = len(answers)

    def change(function: Callable[[np.ndarray], np.ndarray]) -> pd.DataFrame:
        changed = answers.copy()
        changed[TARGETS] = function(answers[TARGETS].to_numpy())
        return changed

    noisy = change(lambda truth: np.clip(truth + rng.normal(0, 0.4, truth.shape), 0, 1).round(3))  # with ties
    shuffled = noisy.sample(frac=1, random_state=0)
    by_id = noisy.sort_values("qa_id")
    return {
        "noisy": noisy,
        "noisy_shuffled": shuffled,
        "columns_shuffled": noisy[list(rng.permutation(noisy.columns))],
        "coarse": change(lambda truth: (truth > 0.2).astype(int) + (truth > 0.6)),
        "reversed": change(lambda truth: 1 - truth),
        "out_of_range": change(lambda truth: 30 * truth - 7),
        **first_value(noisy, "answer_helpful", one_different=0.123, one_infinite=np.inf, one_text="high"),
        "constant": change(lambda truth: np.full(truth.shape, 0.5)),
        "constant_column": noisy.assign(answer_plausible=0.5),
        **first_value(noisy, "question_multi_intent", nan_prediction=np.nan),
        "empty_column": noisy.assign(question_multi_intent=np.nan),
        "text_column": noisy.assign(answer_helpful="high"),
        "ids_ignored": noisy.assign(qa_id=np.arange(n) + 20000),
        "unknown_id": by_id.assign(qa_id=[*by_id.qa_id.iloc[:-1], 99999]),
        "duplicate_row_in_place_of_another": pd.concat([shuffled.iloc[1:], shuffled.tail(1)]),
        "text_ids": noisy.assign(qa_id=[f"q{id:05d}" for id in noisy.qa_id]),
        "extra_column": noisy.assign(category="LIFE_ARTS"),
        "missing_id_column": noisy.drop(columns="qa_id"),
        **malformed(
            noisy,
            "qa_id",
            99999,
            "answer_well_written",
            "missing_column renamed_column",
            without="duplicate_id unknown_id",
        ),
    }
