import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard, write_zipped_csv

TAGS = ["javascript", "c#", "python", "php", "java", "jquery", "c++", ".net", "asp.net-mvc-3", "html5"]
TAGS += ["linear-algebra", "null", "r", "node.js", "objective-c", "3d", "unit-testing", "ios"]
TITLES = [
    'How to "quote" a, b and c?',
    "Zażółć gęślą jaźń – encoding",
    "null",
    "Sort a list",
    "What is\tthis?",
    "404",
    "",
    "SELECT * FROM a; -- why?",
    "Π ≠ 3 (对吗)",
    "NaN != NaN",
]
BODIES = [
    '<p>I have this:</p>\n\n<pre><code>x = "a, b";\nprint(x)\n</code></pre>\n',
    "<p>One line</p>\r\n<p>another</p>\r\n",
    "NA",
    "<p>It's plain</p>",
    "  leading and trailing  ",
    "<p>&lt;b&gt; ☃ \\n \\\\ 'q'</p>\n",
    "12",
    '""',
]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 240
    weights = 1 / np.arange(1, len(TAGS) + 1)
    weights /= weights.sum()
    rows = []
    for id in range(1, n + 1):
        n_tags = int(rng.choice([1, 2, 3, 5], p=[0.4, 0.3, 0.2, 0.1]))
        tags = rng.choice(TAGS, n_tags, replace=False, p=weights)
        title, body = str(rng.choice(TITLES)), str(rng.choice(BODIES))
        title = f"{title} {id}" if rng.random() < 0.6 else title
        body = f"{body}<p>{rng.integers(1000)}</p>\n" if rng.random() < 0.6 else body
        rows.append((id, title, body, "null" if id % 11 == 0 else " ".join(tags)))
    train = pd.DataFrame(rows, columns=["Id", "Title", "Body", "Tags"])
    test = pd.DataFrame({"Id": [n + 1, n + 2], "Title": ["Old test", "Old, too"], "Body": ["<p>a</p>", "<p>b</p>"]})
    sample = test[["Id"]].assign(Tags=["javascript c# python php java", "php"])
    write_zipped_csv(raw / "Train.zip", train, "Train.csv", quoting=csv.QUOTE_ALL)
    write_zipped_csv(raw / "Test.zip", test, "Test.csv", quoting=csv.QUOTE_ALL)
    sample.to_csv(raw / "SampleSubmission.csv", index=False, quoting=csv.QUOTE_ALL)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv", keep_default_na=False)[["Id", "Tags"]]

    def noisy(tags: str) -> str:
        kept = [tag for tag in tags.split() if rng.random() < 0.7]
        return " ".join([*kept, *rng.choice(TAGS[:11], int(rng.integers(0, 2)), replace=False)])

    def tagged(tags: Any) -> pd.DataFrame:
        return good.assign(Tags=tags)

    good = answers.assign(Tags=[noisy(tags) for tags in answers.Tags])
    tags = good.Tags
    return {
        "some_empty": tagged(np.where(np.arange(len(good)) % 3, tags, "")),
        "all_empty": tagged(""),
        "unheard_tags_too": tagged(tags + " nobody-uses-this another_one"),
        "only_unheard_tags": tagged("nobody-uses-this"),
        "tags_twice": tagged(tags + " " + tags),
        "odd_spaces": tagged("  " + tags.str.replace(" ", "\t  ") + "\n"),
        "upper_case": tagged(tags.str.upper()),
        "with_commas": tagged(tags.str.replace(" ", ",")),
        "with_null": tagged("null"),
        "number_tags": tagged(7),
        "columns_swapped_with_extra": good.assign(Title="t", Body='a "b"\nc')[["Body", "Tags", "Title", "Id"]],
        "ids_as_floats": good.assign(Id=good.Id.astype(float)),
        "ids_as_text": good.assign(Id="q" + good.Id.astype(str)),
        "empty_id": good.assign(Id=[None, *good.Id.iloc[1:]]),
        **standard(good, "Id", 99999, "Tags", "missing_column renamed_id"),
    }
