import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

from .columns import TARGET

TITLES = [
    "[Request] Broke student, Texas",
    "[REQUEST] Família de 4 com fome – São Paulo",
    '[request] "Any" kindness helps',
    "[Request] 😀 Birthday pizza?",
    "[Request] Ohio, job starts Monday\\n",
    "[Request] <b>pizza</b> & a poem",
]
TEXTS = [
    'Long day, no food.\n\nWould love a pizza, "extra cheese".',
    "",
    "Tab\there, comma, and a back\\slash.",
    "Payday is Friday; the cupboard is bare — merci d'avance.",
    "ピザが食べたい",
    "EDIT: got it, thanks /u/foo!\r\nYou rock.",
]
SUBREDDITS = ["AskReddit", "funny", "pics", "RandomKindness", "gaming", "Food"]
ACTIVITY = [
    "requester_number_of_comments_at_request",
    "requester_number_of_comments_in_raop_at_request",
    "requester_number_of_posts_at_request",
    "requester_number_of_posts_on_raop_at_request",
]
TEST_FIELDS = [
    "giver_username_if_known",
    "request_id",
    "request_text_edit_aware",
    "request_title",
    "requester_account_age_in_days_at_request",
    "requester_days_since_first_post_on_raop_at_request",
    *ACTIVITY,
    "requester_number_of_subreddits_at_request",
    "requester_subreddits_at_request",
    "requester_upvotes_minus_downvotes_at_request",
    "requester_upvotes_plus_downvotes_at_request",
    "requester_username",
    "unix_timestamp_of_request",
    "unix_timestamp_of_request_utc",
]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    train = [_request(rng, i, rng.random() < 0.3) for i in range(62 + seed)]
    test = [_request(rng, 1000 + i, rng.random() < 0.3) for i in range(29)]
    (raw / "train.json").write_text(json.dumps(train))
    (raw / "test.json").write_text(json.dumps([{field: request[field] for field in TEST_FIELDS} for request in test]))
    sample = pd.DataFrame({"request_id": [request["request_id"] for request in test], TARGET: 0})
    sample.to_csv(raw / "sampleSubmission.csv", index=False)


def _request(rng: np.random.Generator, i: int, received: bool) -> dict[str, Any]:
    subreddits = [str(name) for name in rng.choice(SUBREDDITS, int(rng.integers(0, 5)), replace=False)]
    age = round(float(rng.gamma(1, 200)), 14)
    text = str(rng.choice(TEXTS))
    request: dict[str, Any] = {
        "giver_username_if_known": str(rng.choice(["N/A", f"giver{i}"])) if received else "N/A",
        "number_of_downvotes_of_request_at_retrieval": int(rng.integers(0, 9)),
        "number_of_upvotes_of_request_at_retrieval": int(rng.integers(0, 30)),
        "post_was_edited": bool(rng.random() < 0.2),
        "request_id": f"t3_{i:x}{int(rng.integers(0, 4096)):03x}",
        "request_number_of_comments_at_retrieval": int(rng.integers(0, 12)),
        "request_text": text,
        "request_text_edit_aware": text.split("EDIT")[0],
        "request_title": str(rng.choice(TITLES)),
        "requester_account_age_in_days_at_request": age,
        "requester_account_age_in_days_at_retrieval": age + 500.25,
        "requester_days_since_first_post_on_raop_at_request": 0.0,
        "requester_days_since_first_post_on_raop_at_retrieval": float(rng.random() * 900),
    }
    for name in ACTIVITY:
        count = int(rng.integers(0, 50))
        request |= {name: count, name.replace("at_request", "at_retrieval"): count + 3}
    up, down = int(rng.integers(0, 999)), int(rng.integers(0, 400))
    return request | {
        "requester_number_of_subreddits_at_request": len(subreddits),
        TARGET: bool(received),
        "requester_subreddits_at_request": subreddits,
        "requester_upvotes_minus_downvotes_at_request": up - down,
        "requester_upvotes_minus_downvotes_at_retrieval": up - down + 5,
        "requester_upvotes_plus_downvotes_at_request": up + down,
        "requester_upvotes_plus_downvotes_at_retrieval": up + down + 5,
        "requester_user_flair": str(rng.choice(["shroom", "PIF"])) if received else None,
        "requester_username": f"user_{i}",
        "unix_timestamp_of_request": 1300000000.0 + i * 4321,
        "unix_timestamp_of_request_utc": 1300000000.0 + i * 4321 - 3600,
    }


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    truth = answers[TARGET]
    p = 0.2 * truth + 0.8 * rng.random(len(answers))

    def predicted(values: Any) -> pd.DataFrame:
        return answers.assign(requester_received_pizza=values)

    noisy = predicted(p)
    return {
        **standard(
            noisy,
            "request_id",
            "t3_zzzzz",
            TARGET,
            "missing_column renamed_id nan_prediction text_prediction infinite above_one",
        ),
        "ties": predicted(p.round(1)),
        "extremes": predicted(np.where(p > 0.6, 1.0, np.where(p < 0.3, 0.0, 1e-12 * p))),
        "integers": predicted((p > 0.5).astype(int)),
        "booleans": predicted(p > 0.5),
        "reversed": predicted(1 - truth),
        "column_order_and_extra": noisy.assign(note="x")[[TARGET, "note", "request_id"]],
        "below_zero": predicted([-0.1, *p[1:]]),
    }
