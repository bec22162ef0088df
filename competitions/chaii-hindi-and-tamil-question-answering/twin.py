from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.labels import by_size, random_names
from pytest_mlebench.authoring.worlds.text import Facts, obvious

LANGUAGES = {"hindi": ("devanagari", "।"), "tamil": ("tamil", ".")}


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, other = by_size(size, 900, 5400, 12000), 5
    worlds = {language: Facts(rng, script) for language, (script, _) in LANGUAGES.items()}
    rows: list[tuple[object, ...]] = []
    while len(rows) < n + other:
        language = "hindi" if rng.random() < 0.66 else "tamil"
        rows += _article(rng, worlds[language], language)
    columns = ["context", "question", "answer_text", "answer_start", "language", "simple", "ceiling"]
    table = pd.DataFrame(rows[: n + other], columns=columns).sample(frac=1, random_state=int(rng.integers(2**31)))
    table.insert(0, "id", random_names(rng, n + other, 9))
    shown = table.drop(columns=["simple", "ceiling"])
    shown[:n].to_csv(raw / "train.csv", index=False)
    shown[n:].drop(columns=["answer_text", "answer_start"]).to_csv(raw / "test.csv", index=False)
    shown[["id"]][n:].assign(PredictionString="").to_csv(raw / "sample_submission.csv", index=False)
    known = table.set_index("id")
    return {name: known[[name]].set_axis(["PredictionString"], axis=1) for name in ("simple", "ceiling")}


def _article(rng: np.random.Generator, world: Facts, language: str) -> list[tuple[object, ...]]:
    """Return one or two questions about an article."""
    page, stop = world.page(rng), LANGUAGES[language][1]
    context = "\n\n".join(" ".join(" ".join(s.words) + stop for s in paragraph) for paragraph in page)
    statements = [statement for paragraph in page for statement in paragraph]
    rows = []
    for k in rng.choice(len(statements), int(rng.choice([1, 2], p=[0.8, 0.2])), replace=False):
        asked = statements[k]
        right, end = asked.words[asked.value], asked.value.stop
        chance = rng.random()
        if chance < 0.06 and end < len(asked.words):  # some annotators marked a word more, or less
            marked = " ".join([*right, asked.words[end]])
        else:
            marked = " ".join(right[:-1] if chance > 0.94 and len(right) > 1 else right)
        seen = obvious(page, asked.relation)
        simple = " ".join(seen.words[seen.value]) if seen else asked.subject
        question = world.question(rng, asked.subject, asked.relation) + "?"
        start = context.index(" ".join(asked.words)) + len(" ".join([*asked.words[: asked.value.start], ""]))
        rows.append((context, question, marked, start, language, simple, " ".join(right)))
    return rows
