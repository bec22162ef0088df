import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

HINDI = (
    "भारत दिल्ली नदी गंगा राज्य जनसंख्या वर्ष में के की है और जन्म हुआ था शहर राजधानी मुंबई पर्वत हिमालय भाषा क्षेत्रफल प्रधानमंत्री लेखक"
).split()
TAMIL = (
    "இந்தியா சென்னை நதி காவேரி மாநிலம் மக்கள் ஆண்டு பிறந்தார் நகரம் தலைநகரம் மதுரை மலை மொழி பரப்பளவு முதல்வர் எழுத்தாளர் "
    "கோயில் தமிழ் உள்ளது ஒரு"
).split()
ODD = ["1,210", '"Sun" City', "(UNESCO)", "3.14", "NASA", "१९४७", "5 %"]
BREAKS = ["।\n", ".\n\n", " "]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 150, 5
    ids: dict[str, None] = {}
    while len(ids) < n + n_test:
        ids["".join(rng.choice(list("0123456789abcdef"), 9))] = None
    rows = [(id, *_question(rng)) for id in ids]
    table = pd.DataFrame(rows, columns=["id", "context", "question", "answer_text", "answer_start", "language"])
    table.head(n).to_csv(raw / "train.csv", index=False)
    test = table.tail(n_test).drop(columns=["answer_text", "answer_start"])
    test.to_csv(raw / "test.csv", index=False)
    test[["id"]].assign(PredictionString="").to_csv(raw / "sample_submission.csv", index=False)


def _question(rng: np.random.Generator) -> tuple[str, str, str, int, str]:
    language, words = ("hindi", HINDI) if rng.random() < 0.66 else ("tamil", TAMIL)
    text = [str(rng.choice(words)) for _ in range(rng.integers(12, 30))]
    text[3] = str(rng.integers(1800, 2021))
    text[6] = ODD[rng.integers(7)]
    context = " ".join(text[:10]) + BREAKS[rng.integers(3)] + " ".join(text[10:])
    start = rng.integers(0, 8)
    answer = " ".join(text[start : start + rng.integers(1, 5)])
    question = " ".join(rng.choice(words, 5)) + "?"
    return context, question, answer, context.find(answer), language


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv", dtype=str)
    contexts = pd.read_csv(public / "test.csv", dtype=str).set_index("id").context
    n = len(answers)

    def guess(id: str, answer: str) -> str:
        words = contexts[id].split()
        k = rng.integers(0, len(words))
        if rng.random() < 0.3:
            return answer
        return f"{answer} {words[k]}" if rng.random() < 0.5 else " ".join(words[k : k + 3])

    def predicted(texts: Any) -> pd.DataFrame:
        return noisy.assign(PredictionString=texts)

    def quoted(table: pd.DataFrame) -> str:
        return table.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC)

    guesses = [guess(id, answer) for id, answer in zip(answers.id, answers.PredictionString, strict=True)]
    noisy = answers.assign(PredictionString=guesses)
    text = noisy.PredictionString
    return {
        "quoted.csv": quoted(noisy),
        "column_order_extra": noisy.assign(extra=1.5)[["extra", "PredictionString", "id"]],
        "words_backwards": predicted([" ".join(words[::-1]) for words in text.str.split()]),
        "words_doubled": predicted(text + "  " + text),
        "whole_context": predicted([contexts[id] for id in noisy.id]),
        "upper_case": predicted(text.str.upper()),
        "with_full_stop": predicted(text + "।"),
        "no_break_space": predicted(text.str.replace(" ", "\u00a0")),
        "decomposed": predicted(text.str.normalize("NFD")),
        "some_empty": predicted([guess if k % 3 else "" for k, guess in enumerate(text)]),
        "all_empty": predicted(""),
        "spaces_only.csv": quoted(predicted("  ")),
        "constant": predicted(HINDI[0] + " " + TAMIL[0]),
        "all_numbers": predicted(1947),
        "numbers_and_empty": predicted(["" if k % 3 else "1947" for k in range(n)]),
        "one_number": predicted(["1947", *text[1:]]),
        **standard(noisy, "id", "zzzzzzzzz", "PredictionString", "missing_column renamed_column"),
    }
