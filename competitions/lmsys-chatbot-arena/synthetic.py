import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

from .grade import VERDICTS

MODELS = ["gpt-4-1106-preview", "llama-2-7b-chat", "koala-13b", "claude-2.1", "mixtral-8x7b"]
PROMPTS = ["Write a haiku", "What is 2+2?", "¿Qué hora es en Perú?", 'Explain "monads", simply', "line one\nline two"]
PROMPTS += ["逐步解释", "emoji 🤖 please", ""]
WORDS = "the model says, \"yes\" or; no\n- a\tlist 1.5 é 好 😀 \\ slash 'quote'".split(" ")
COLUMNS = ["id", "model_a", "model_b", "prompt", "response_a", "response_b", *VERDICTS]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 231 + seed, 3
    ids = np.sort(rng.choice(4_000_000_000, n, replace=False))
    train = pd.DataFrame([[id, *_conversation(rng)] for id in ids], columns=COLUMNS)
    test = train[["id", "prompt", "response_a", "response_b"]].head(n_test)
    train.to_csv(raw / "train.csv", index=False)
    test.to_csv(raw / "test.csv", index=False)
    test[["id"]].assign(**dict.fromkeys(VERDICTS, 1 / 3)).to_csv(raw / "sample_submission.csv", index=False)


def _conversation(rng: np.random.Generator) -> list[Any]:
    n_turns = int(rng.choice([1, 1, 1, 2, 3]))
    response_a = [_text(rng) for _ in range(n_turns)]
    response_b = [None if rng.random() < 0.05 else _text(rng) for _ in range(n_turns)]
    verdict = rng.choice(3, p=[0.35, 0.35, 0.3])
    models = rng.choice(MODELS, 2, replace=False)
    prompts = [str(prompt) for prompt in rng.choice(PROMPTS, n_turns)]
    turns = [json.dumps(texts, ensure_ascii=bool(rng.random() < 0.5)) for texts in (prompts, response_a, response_b)]
    return [*models, *turns, *(int(verdict == k) for k in range(3))]


def _text(rng: np.random.Generator) -> str:
    return " ".join(rng.choice(WORDS, int(rng.integers(1, 14))))


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")[["id", *VERDICTS]]
    truth = answers[VERDICTS].to_numpy()
    n = len(answers)

    def predicted(probabilities: np.ndarray) -> pd.DataFrame:
        return answers.assign(**dict(zip(VERDICTS, probabilities.T, strict=True)))

    def first(a: float, b: float, tie: float) -> pd.DataFrame:
        return predicted(np.vstack([[a, b, tie], p[1:]]))

    p = rng.dirichlet([1, 1, 1], n) * 0.7 + 0.3 * truth
    p[:, 2] = 1 - p[:, 0] - p[:, 1]
    noisy = predicted(p)
    guess = np.eye(3)[p.argmax(axis=1)]
    rounded = p[:, :2].round(3)
    rest = 1 - rounded[:, 0] - rounded[:, 1]
    return {
        "rounded_3_digits": predicted(np.c_[rounded, rest].clip(0, 1)),
        "hard_guess": predicted(guess.astype(int)),
        "all_wrong": predicted(np.roll(truth, 1, axis=1)),
        "tiny_probability": predicted(np.where(truth == 1, 1e-9, 0.5)),
        "prior": predicted(np.tile([0.35, 0.34, 0.31], (n, 1))),
        "sum_off_4e7": predicted(p + np.array([4e-7, 0, 0])),
        "column_order_and_extra": noisy.assign(why="x")[
            ["winner_tie", "why", "winner_model_b", "id", "winner_model_a"]
        ],
        "sum_off_2e6": first(p[0, 0] + 2e-6, p[0, 1], p[0, 2]),
        "negative": first(0.5, 0.6, -0.1),
        "above_one": first(1.5, 0.0, 0.0),
        "sums_to_two": predicted(np.full((n, 3), 2 / 3)),
        "booleans": predicted(guess.astype(bool)),
        "text_ids": noisy.assign(id=[f"x{id}" for id in noisy.id]),
        **standard(noisy, "id", 1, "winner_tie", "missing_column nan_prediction text_prediction"),
    }
