from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.text import lexicon, zipf

YOU, THEY = ["you", "your kind", "people like you"], ["the mayor", "that singer", "their coach", "he", "she"]
ODD = ["\\n", "\\xa0", "\\u201c", "...", "!!", "\\n\\n"]


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    train, test, other = (by_size(size, *counts) for counts in ((120, 1500, 4000), (60, 500, 2600), (10, 60, 200)))
    # the world: what words mean. A comment is an insult if its rude words are about a participant
    plain, rude, kind = lexicon(rng, 700), lexicon(rng, 60), lexicon(rng, 60)
    rows = [_comment(rng, plain, rude, kind) for _ in range(train + test + other)]
    table = pd.DataFrame(rows, columns=["ceiling", "simple", "Comment"])
    table.insert(0, "Insult", (rng.random(len(table)) < table["ceiling"]).astype(int))
    when = pd.Timestamp("2012-01-01") + pd.to_timedelta(rng.integers(0, 250 * 86400, len(table)), unit="s")
    dates = pd.Series(when.strftime("%Y%m%d%H%M%SZ"))
    table.insert(1, "Date", dates.where(rng.random(len(table)) > 0.2, None))

    parts = [table[:train], table[train : train + test], table[train + test :]]
    columns = ["Insult", "Date", "Comment"]
    parts[0][columns].to_csv(raw / "train.csv", index=False)
    usage = np.where(rng.random(test) < 0.3, "PublicTest", "PrivateTest")
    parts[1][columns].assign(Usage=usage).to_csv(raw / "test_with_solutions.csv", index=False)
    check = parts[2][columns].reset_index(drop=True).rename_axis("id").reset_index()
    check.drop(columns="Insult").to_csv(raw / "test.csv", index=False)
    check.assign(Insult=0).to_csv(raw / "sample_submission_null.csv", index=False)
    check.assign(Usage="PrivateTest").to_csv(raw / "impermium_verification_labels.csv", index=False)
    check.to_csv(raw / "impermium_verification_set.csv", index=False)
    known = parts[1].set_index("Comment")
    return {name: known[[name]].set_axis(["Insult"], axis=1) for name in ("simple", "ceiling")}


def _comment(rng: np.random.Generator, plain: list[str], rude: list[str], kind: list[str]) -> tuple[float, float, str]:
    """Return the chance that a comment is marked as an insult, a rough estimate of it, and the comment."""
    to_you, harsh = rng.random() < 0.5, rng.random() < 0.55
    who = str(rng.choice(YOU if to_you else THEY))
    what = f"{who} {rng.choice(['are', 'sound', 'always seem'])} {' '.join(zipf(rng, rude if harsh else kind, 2))}"
    parts = [" ".join(zipf(rng, plain, rng.integers(2, 14))) for _ in range(rng.integers(1, 4))]
    parts.insert(rng.integers(len(parts) + 1), what)
    if rng.random() < 0.5:  # a kind remark about the other person, so that it matters who is meant
        parts.append(f"{rng.choice(THEY if to_you else YOU)} {rng.choice(['are', 'sound'])} {zipf(rng, kind, 1)[0]}")
    text = " ".join(p + str(rng.choice(["", ".", ",", "?", *ODD])) for p in parts)
    return (0.9 if to_you and harsh else 0.07), (0.5 if harsh else 0.07), f'"{text}"'
