import json
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from pytest_mlebench.authoring.worlds.labels import by_size, positive_probabilities, random_names
from pytest_mlebench.authoring.worlds.text import Language, lexicon

from .columns import TARGET
from .synthetic import ACTIVITY, TEST_FIELDS


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, other = (by_size(size, *counts) for counts in ((600, 2200, 6000), (200, 700, 3000)))
    count = n + other
    # the world: what makes people give, in the text and in the data about the requester
    language = Language(rng, scales=1)
    titles = language.write(rng, rng.integers(3, 9, count), marks=False)
    texts = language.write(rng, rng.integers(10, 90, count))
    full, plain = (s[:, 0] for s in language.read([f"{a} {b}" for a, b in zip(titles, texts, strict=False)]))
    favoured, names = rng.normal(0, 0.9, 40), lexicon(rng, 40)
    communities = [rng.choice(40, k, replace=False) for k in rng.integers(0, 9, count)]
    age, when = rng.gamma(1, 250, count).round(4), 1300000000 + rng.integers(0, 80_000_000, count)
    activity = rng.geometric([[0.02], [0.4], [0.04], [0.6]], (4, count)) - 1
    up, down = rng.geometric(0.002, count) - 1, rng.geometric(0.006, count) - 1
    obvious = 0.35 * np.log1p(age) + 0.5 * np.log1p(activity[1])
    score = 0.9 * full + obvious + 0.3 * np.log1p(up) + np.array([favoured[k].sum() for k in communities])
    p = positive_probabilities(score, accuracy=0.86, positive=0.25)
    received = rng.random(count) < p

    ids, users = (random_names(rng, count, k, "0123456789abcdefghijklmnopqrstuvwxyz") for k in (5, 9))
    givers = np.where(rng.random(count) < 0.06, rng.permutation(users), "N/A")  # independent of the outcome
    edited, shroom = rng.random(count) < 0.15, rng.random(count) < 0.2
    requests = []
    for i in range(count):
        stamp, row, days = float(when[i]), [int(k) for k in activity[:, i]], float(age[i])
        request = {
            "giver_username_if_known": str(givers[i]),
            "number_of_downvotes_of_request_at_retrieval": int(rng.integers(0, 9)),
            "number_of_upvotes_of_request_at_retrieval": int(rng.integers(0, 30)),
            "post_was_edited": bool(edited[i]),
            "request_id": f"t3_{ids[i]}",
            "request_number_of_comments_at_retrieval": int(rng.integers(0, 12)),
            "request_text": texts[i] + "\n\nEDIT: thanks" * bool(edited[i]),
            "request_text_edit_aware": texts[i],
            "request_title": f"[Request] {titles[i]}",
            "requester_account_age_in_days_at_request": days,
            "requester_account_age_in_days_at_retrieval": round(days + 500.25, 4),
            "requester_days_since_first_post_on_raop_at_request": days / 2 if row[3] else 0.0,
            "requester_days_since_first_post_on_raop_at_retrieval": round(days / 2 + 500.25, 4),
            **dict(zip(ACTIVITY, row, strict=False)),
            **{name.replace("at_request", "at_retrieval"): k + 3 for name, k in zip(ACTIVITY, row, strict=False)},
            "requester_number_of_subreddits_at_request": len(communities[i]),
            TARGET: bool(received[i]),
            "requester_subreddits_at_request": [names[k] for k in communities[i]],
            "requester_user_flair": "shroom" if received[i] and shroom[i] else None,
            "requester_username": users[i],
            "unix_timestamp_of_request": stamp,
            "unix_timestamp_of_request_utc": stamp - 3600,
        }
        for time in ("request", "retrieval"):
            request[f"requester_upvotes_minus_downvotes_at_{time}"] = int(up[i] - down[i])
            request[f"requester_upvotes_plus_downvotes_at_{time}"] = int(up[i] + down[i])
        requests.append(request)
    (raw / "train.json").write_text(json.dumps(requests[:n]))
    test = [{field: request[field] for field in TEST_FIELDS} for request in requests[n:]]
    (raw / "test.json").write_text(json.dumps(test))
    index = pd.Index([request["request_id"] for request in requests], name="request_id")
    pd.DataFrame({TARGET: 0}, index[n:]).to_csv(raw / "sampleSubmission.csv")
    features = np.c_[0.5 * plain, obvious]
    simple = LogisticRegression().fit(features, received).predict_proba(features)[:, 1]
    return {name: pd.DataFrame({TARGET: values}, index) for name, values in (("simple", simple), ("ceiling", p))}
