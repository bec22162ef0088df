"""Run groups whose runs called models, as the gateway records them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.io.values import write_json
from pytest_mlebench.llm.ledger import BODIES, CALLS, Call, Ledger
from pytest_mlebench.llm.prices import Tokens
from pytest_mlebench.llm.trajectory import TRAJECTORY, build
from pytest_mlebench.records.record import RunRecord
from tests.groups import START, record_with, save_group, with_timeline

COMPETITION = default_catalogue()["smoke-diabetes"]


def recorded_group(
    folder: Path,
    *,
    runs: int = 2,
    calls: int = 3,
    outcomes: Sequence[str] = ("gold", "crashed"),
    said: str = "train.csv",
    copies: bool = False,
    window: int | None = None,
) -> list[RunRecord]:
    """A group of runs with one snapshot each. Their model calls a tool in every response except the last.

    With ``copies`` all have the recording of the first one.
    """
    records = [record_with(COMPETITION, outcomes[seed % len(outcomes)], agent="a", seed=seed) for seed in range(runs)]
    records = save_group(folder, records, planned=[record.key for record in records])
    made: list[RunRecord] = []
    first: RunRecord | None = None
    for record in records:
        run_dir = folder / record.run_id
        if copies and first is not None:
            for name in (CALLS, BODIES, TRAJECTORY):
                (run_dir / name).parent.mkdir(exist_ok=True)
                (run_dir / name).hardlink_to(folder / first.run_id / name)
            made.append(replace(record, llm=first.llm))
            made[-1].write(run_dir)
            continue
        totals = converse(run_dir, calls, said=said, window=window)
        whole = with_timeline(replace(record, llm=totals), COMPETITION, (0.5, COMPETITION.leaderboard.bronze))
        whole.write(run_dir)
        if (trajectory := build(run_dir, agent=record.agent)) is not None:
            write_json(run_dir / TRAJECTORY, trajectory)
        made.append(whole)
        first = whole
        first = whole
    return made


def converse(run_dir: Path, calls: int, *, said: str, window: int | None = None) -> dict[str, object]:
    """Record a conversation of the given number of calls, each a second long with a second between; return its totals.

    With a ``window``, each request repeats only that many of the last messages.
    """
    messages: list[dict[str, object]] = [
        {"role": "system", "content": "You compete."},
        {"role": "user", "content": "Begin."},
    ]
    ledger = Ledger(run_dir)
    for number in range(1, calls + 1):
        last = number == calls
        tool = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
        answer: dict[str, object] = {"role": "assistant", "content": f"Step {number}."}
        if not last:
            answer["tool_calls"] = [tool]
        ledger.write(
            Call(
                number=number,
                started_at=(datetime.fromisoformat(START.isoformat()) + timedelta(seconds=2 * number)).isoformat(),
                provider="openai",
                flavour="openai",
                endpoint="chat/completions",
                kind="generate",
                model="gpt-4o",
                answered_model="gpt-4o-2024-11-20",
                status=200,
                seconds=1.0,
                first_token=0.25,
                tokens=Tokens(input=100, output=20, cached=60, reasoning=5),
                cost=Decimal("0.01"),
            )
        )
        finish = "stop" if last else "tool_calls"
        body = {
            "request": {
                "model": "gpt-4o",
                "messages": messages[:2] + messages[2:][-window:] if window else list(messages),
            },
            "response": {"choices": [{"message": answer, "finish_reason": finish}]},
        }
        ledger.write_bodies(number, body)
        messages += [answer, {"role": "tool", "tool_call_id": f"c{number}", "content": f"{said} {number}"}]
    ledger.write(
        Call(number=calls + 1, provider="openai", flavour="openai", kind="generate", model="gpt-4o", status=429,
             error="rate limit", started_at=(START + timedelta(seconds=50)).isoformat(), seconds=0.5)
    )  # fmt: skip
    ledger.close()
    return ledger.totals.to_json()
