"""The published results of MLE-bench, to compare with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from pytest_mlebench.io.paths import bundled
from pytest_mlebench.results.statistics import Rate

SPLITS = ("low", "medium", "high", "all")


@dataclass(frozen=True, kw_only=True)
class PublishedResult:
    """One line of the published table: any-medal rates by split (low, medium, high, all)."""

    agent: str
    llm: str
    date: str
    hours: float | None
    rates: Mapping[str, Rate]
    padded_incomplete_seeds: bool = False
    comparable: bool = True
    """False where ``note`` says why the result does not compare, such as feedback from the test set."""
    note: str = ""


@cache
def published_results() -> tuple[PublishedResult, ...]:
    """All published results, the best first."""
    table = json.loads((bundled("reports") / "published.json").read_text(encoding="utf-8"))
    results = [
        PublishedResult(
            agent=line["agent"],
            llm=line["llm"],
            date=line["date"],
            hours=line.get("hours"),
            rates={split: Rate(*line[split]) for split in SPLITS if line.get(split)},
            padded_incomplete_seeds=line.get("padded_incomplete_seeds", False),
            comparable=line.get("comparable", True),
            note=line.get("note", ""),
        )
        for line in table["results"]
    ]
    return tuple(sorted(results, key=lambda result: -result.rates["all"].mean))
