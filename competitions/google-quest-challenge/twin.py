from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.text import Language, lexicon

from .prepare import RARE
from .synthetic import TARGETS

LEVELS = np.array([0, 1 / 3, 0.5, 2 / 3, 1])
CATEGORIES = ["TECHNOLOGY", "STACKOVERFLOW", "CULTURE", "SCIENCE", "LIFE_ARTS"]
SCALES = 5
ABOUT_QUESTIONS = sum(name.startswith("question") for name in TARGETS)


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n = by_size(size, 800, 7800, 12000)
    questions = n * 2 // 3
    of = rng.permutation(np.r_[np.arange(questions), rng.integers(questions, size=n - questions)])
    # the world: which aspects of a text, and which subjects, each of the raters' questions depends on
    language = Language(rng, scales=SCALES)
    leaning = rng.normal(size=(questions, SCALES))
    titles = language.write(rng, rng.integers(4, 12, questions), leaning, marks=False)
    bodies = language.write(rng, rng.integers(12, 45, questions), leaning)
    answers = language.write(rng, rng.integers(12, 50, n))
    category, users, hosts = rng.integers(5, size=questions), lexicon(rng, 300), lexicon(rng, 12)
    full, plain = language.read([f"{title} {body}" for title, body in zip(titles, bodies, strict=False)])
    parts = [np.c_[f[of], g] for f, g in zip((full, plain), language.read(answers), strict=False)]
    weights = rng.normal(size=(2 * SCALES, len(TARGETS))) * (rng.random((2 * SCALES, len(TARGETS))) < 0.5)
    weights[SCALES:, :ABOUT_QUESTIONS] = 0  # ratings of the question do not depend on the answer
    weights[np.arange(len(TARGETS)) % SCALES + SCALES * (np.arange(len(TARGETS)) >= ABOUT_QUESTIONS), range(30)] = 1.5
    matters = rng.normal(0, 2, (5, len(TARGETS)))[category[of]]
    ceiling, simple = parts[0] @ weights + matters, parts[1] @ weights + matters
    raters = ceiling + rng.normal(size=ceiling.shape) * ceiling.std(axis=0) * 0.7
    cuts = np.sort(rng.uniform(0.05, 0.95, (len(LEVELS) - 1, len(TARGETS))), axis=0)
    cuts[:, TARGETS.index(RARE)] = 0.9, 0.94, 0.96, 0.98
    ranks = raters.argsort(axis=0).argsort(axis=0) / n
    targets = LEVELS[(ranks[None] > cuts[:, None]).sum(axis=0)]

    site = np.array(hosts)[category[of] * 2 + of % 2]
    asked, answered = rng.integers(300, size=questions)[of], rng.integers(300, size=n)
    pairs = pd.DataFrame(
        {
            "qa_id": np.sort(rng.choice(3 * n, n, replace=False)),
            "question_title": [titles[k] for k in of],
            "question_body": [bodies[k] for k in of],
            "question_user_name": [users[k] for k in asked],
            "question_user_page": [f"https://{host}.example/users/{k}" for host, k in zip(site, asked, strict=False)],
            "answer": answers,
            "answer_user_name": [users[k] for k in answered],
            "answer_user_page": [f"https://{host}.example/users/{k}" for host, k in zip(site, answered, strict=False)],
            "url": [f"https://{host}.example/questions/{k}" for host, k in zip(site, of, strict=False)],
            "category": np.array(CATEGORIES)[category[of]],
            "host": [f"{host}.example" for host in site],
        }
    )
    pairs.join(pd.DataFrame(targets.round(9), columns=TARGETS)).to_csv(raw / "train.csv", index=False)
    pairs.head(4).to_csv(raw / "test.csv", index=False)
    pairs[["qa_id"]].head(4).assign(**dict.fromkeys(TARGETS, 0.5)).to_csv(raw / "sample_submission.csv", index=False)
    shares = {
        name: values.argsort(axis=0).argsort(axis=0) / n for name, values in (("simple", simple), ("ceiling", ceiling))
    }
    return {name: pd.DataFrame(values, pairs["qa_id"], TARGETS) for name, values in shares.items()}
