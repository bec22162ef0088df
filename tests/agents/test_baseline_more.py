"""What the bundled baseline does with data that is neither one table nor a folder of pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.full

if TYPE_CHECKING:
    from pathlib import Path

    from tests.agents.conftest import Start


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (folder := tmp_path / "data").mkdir()
    return folder


def test_it_recommends_what_a_customer_took_lately_before_what_all_take(data: Path, start: Start) -> None:
    days = pd.date_range("2020-01-01", "2020-02-29").strftime("%Y-%m-%d")
    bought = [(day, f"c{k}", str(100 + 10 * k + place // 30)) for place, day in enumerate(days) for k in range(3)]
    bought += [(day, f"d{place}", "777") for place, day in enumerate(days)]
    pd.DataFrame(sorted(bought), columns=["day", "who", "item"]).to_csv(data / "transactions.csv", index=False)
    sample = pd.DataFrame({"who": ["c2", "c0", "new"], "prediction": "0777 0101 0112"})
    sample.to_csv(data / "sample_submission.csv", index=False)
    ran = start("baseline", data)
    found = pd.read_csv(ran.submission, dtype=str)
    assert list(found["who"]) == ["c2", "c0", "new"], ran.output
    assert [items.split()[0] for items in found["prediction"]] == ["121", "101", "777"], ran.output


def test_it_predicts_a_value_for_each_place_of_a_sequence(data: Path, start: Start) -> None:
    rng = np.random.default_rng(0)
    records = []
    for k in range(40):
        letters = rng.choice(list("ACGU"), 20)
        values = [round(float((a == "A") + 2 * (b == "G")), 3) for a, b in zip(letters, ["", *letters], strict=False)]
        records.append({"id": f"m{k}", "letters": "".join(letters), "decay": values[:15]})
    train, test = pd.DataFrame(records[:30]), pd.DataFrame(records[30:])
    train.to_json(data / "train.json", orient="records", lines=True)
    test.drop(columns="decay").to_json(data / "test.json", orient="records", lines=True)
    ids = [f"{id}_{k}" for id in test["id"] for k in range(20)]
    pd.DataFrame({"id_place": ids, "decay": 0.0}).to_csv(data / "sample_submission.csv", index=False)
    ran = start("baseline", data)
    found = pd.read_csv(ran.submission)["decay"].to_numpy().reshape(-1, 20)[:, :15]
    assert np.abs(found - np.array(test["decay"].to_list())).mean() < 0.3, ran.output
