"""Leaks: programs that read the answers out of the public files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tests.v2.probes import attack


@attack("random-acts-of-pizza")
def whoever_has_a_giver_got_a_pizza(public: Path) -> pd.DataFrame:
    requests = pd.read_json(public / "test.json")
    given = (requests["giver_username_if_known"] != "N/A").astype(int)
    return pd.DataFrame({"request_id": requests["request_id"], "requester_received_pizza": given})
