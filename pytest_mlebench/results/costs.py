"""What runs spent on language models, in all and for each medal, by agent and split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_mlebench.results.summary import split_rank
from pytest_mlebench.runs.record import RunRecord


@dataclass(frozen=True, kw_only=True)
class Spending:
    """The model calls of an agent's runs on a split. Costs in US dollars; None where that of a run is not known."""

    agent: str
    split: str
    runs: int
    medals: int
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost: float | None
    known_cost: float
    seconds: float
    """Waited for models."""
    budgets_ended: int
    """Runs whose budget ended."""
    failures: Mapping[str, int]
    """How many requests failed, by HTTP status; ``none`` where there was no answer."""

    @property
    def cost_per_run(self) -> float | None:
        return None if self.cost is None else self.cost / self.runs

    @property
    def cost_per_medal(self) -> float | None:
        return None if self.cost is None or not self.medals else self.cost / self.medals


def spending(records: Iterable[RunRecord]) -> list[Spending]:
    """By agent and split, of the runs that reached models by the gateway."""
    groups: dict[tuple[str, str], list[RunRecord]] = {}
    for record in records:
        if "calls" in record.llm:
            groups.setdefault((record.agent, record.split), []).append(record)
    order = sorted(groups, key=lambda key: (split_rank(key[1]), key[0]))
    return [_spending(agent, split, groups[agent, split]) for agent, split in order]


def _spending(agent: str, split: str, records: list[RunRecord]) -> Spending:
    tokens = {name: sum(_counts(record.llm, "tokens").get(name, 0) for record in records) for name in _TOKENS}
    costs = [0.0 if not record.llm["calls"] else record.cost for record in records]
    known = [float(record.llm.get("known_cost") or 0) for record in records]
    return Spending(
        agent=agent,
        split=split,
        runs=len(records),
        medals=sum(record.report.any_medal for record in records),
        calls=sum(int(record.llm["calls"]) for record in records),
        input_tokens=tokens["input"],
        cached_tokens=tokens["cached"],
        output_tokens=tokens["output"],
        reasoning_tokens=tokens["reasoning"],
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
        known_cost=sum(known),
        seconds=sum(float(record.llm.get("seconds") or 0) for record in records),
        budgets_ended=sum(bool(record.llm.get("budget_ended")) for record in records),
        failures=sum((Counter(_counts(record.llm, "errors")) for record in records), Counter()),
    )


_TOKENS = ("input", "cached", "output", "reasoning")


def _counts(llm: Mapping[str, Any], name: str) -> dict[str, int]:
    values = llm.get(name)
    return {str(name): int(value) for name, value in values.items()} if isinstance(values, Mapping) else {}
