"""Exports a run group as Inspect logs, for ``inspect view`` and ``inspect log``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_mlebench._version import __version__
from pytest_mlebench.extras.interop.contract import ExportOption, Request
from pytest_mlebench.extras.interop.facts import cleaner, trajectory, write_cleaned
from pytest_mlebench.extras.interop.mle_bench import file_name, stamp
from pytest_mlebench.io.values import as_object, as_objects
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.outcome import Ending, Outcome
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.run_details import steps_of

SUMMARY = "logs for `inspect view`"
OPTIONS: tuple[ExportOption, ...] = ()


def export(group: RunGroup, request: Request) -> Iterator[str]:
    """Write a log for each agent: competitions are its samples, seeds their epochs.

    The format is version 2 of Inspect's JSON logs. The scorer ``mle_bench`` has the score, with the whole grade as
    metadata; ``medal`` is 1 for any medal, else 0.
    """
    target, redactor = request.folder(group), cleaner()
    for agent in group.agents:
        records = [record for record in group.records if record.agent == agent]
        if records:
            started = stamp(min(record.started_at for record in records))
            # Inspect reads time, task and id from the name.
            path = target / f"{started}_mle-bench_{file_name(group.name)}-{file_name(agent)}.json"
            log = _log(group, sorted(records, key=lambda record: (record.competition_id, record.seed)))
            write_cleaned(path, log, redactor)
            yield str(path)


def _log(group: RunGroup, records: list[RunRecord]) -> dict[str, Any]:
    first, last = min(r.started_at for r in records), max(r.ended_at for r in records)
    ids = sorted({record.competition_id for record in records})
    calls = Counter[str]()
    for record in records:
        calls.update(record.models_called)
    model = max(calls, key=lambda name: calls[name], default="none/none")
    medals = [float(record.report.any_medal) for record in records]
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": f"{group.name}-{records[0].agent}",
            "run_id": group.name,
            "created": _iso_time(first),
            "task": "mle-bench",
            "task_id": f"{group.name}-{records[0].agent}",
            "task_version": group.version,
            "task_attribs": {},
            "task_args": {},
            "solver": records[0].agent,
            "dataset": {"name": "mle-bench", "samples": len(ids), "sample_ids": ids, "shuffled": False},
            "model": model if "/" in model else f"mlebench/{model}",
            "model_args": {},
            "config": {"epochs": len({record.seed for record in records})},
            "packages": {"pytest-mlebench": __version__},
            "metadata": {"limits": dict(group.manifest.settings.get("limits") or {}), "models": dict(calls)},
        },
        "plan": {"name": "plan", "steps": [{"solver": records[0].agent, "params": {}}]},
        "results": {
            "total_samples": len(records),
            "completed_samples": sum("error" not in _failure(record) for record in records),
            "scores": [
                {
                    "name": "medal",
                    "scorer": "medal",
                    "params": {},
                    "metrics": {"mean": {"name": "mean", "value": sum(medals) / len(medals), "params": {}}},
                }
            ],
        },
        "stats": {"started_at": _iso_time(first), "completed_at": _iso_time(last), "model_usage": _usage(records)},
        "samples": [_sample(record, group.folder / record.run_id) for record in records],
    }


def _sample(record: RunRecord, run_dir: Path) -> dict[str, Any]:
    steps = trajectory(run_dir, record)
    messages = list(_messages(steps)) if steps is not None else []
    model = next(iter(record.models_called), "none")
    medal = record.report.medal or ("above median" if record.report.above_median else record.outcome.label)
    answer = f"{medal}: {record.reason}" if record.reason else medal
    return {
        "id": record.competition_id,
        "epoch": record.seed + 1,
        "input": f"Compete in {record.competition_id}.",
        "target": "",
        "messages": messages,
        "output": {"model": model, "choices": []},
        "scores": {
            "mle_bench": {
                # Inspect's tables cannot have a missing or infinite score; the metadata has the grade.
                "value": record.score if record.score is not None and abs(record.score) < 1e300 else "invalid",
                "answer": answer,
                "metadata": record.report.to_json() | {"score": None if record.score is None else str(record.score)},
            },
            "medal": {"value": int(record.report.any_medal), "answer": answer},
        },
        "metadata": {
            "run_id": record.run_id,
            "seed": record.seed,
            "ending": record.ending.value,
            "outcome": record.outcome.value,
            "cost": record.cost,
        },
        "store": {},
        "events": [],
        "model_usage": _usage([record]),
        **_failure(record),
        "started_at": _iso_time(record.started_at),
        "completed_at": _iso_time(record.ended_at),
        "total_time": record.seconds,
        "attachments": {},
    }


def _usage(records: Iterable[RunRecord]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for record in records:
        for name, usage in record.usage.models.items():
            read, written = usage.input_tokens or 0, usage.output_tokens or 0
            counts = found.setdefault(name, Counter())
            counts.update(input_tokens=read, output_tokens=written, total_tokens=read + written)
    return found


def _failure(record: RunRecord) -> dict[str, Any]:
    """How a run failed, as an error or a limit of Inspect; empty if it did not fail."""
    if record.outcome is Outcome.error or record.ending in (Ending.CRASHED, Ending.OUT_OF_MEMORY):
        message = record.error or "; ".join(filter(None, (record.ending.value, record.detail)))
        return {"error": {"message": message, "traceback": "", "traceback_ansi": ""}}
    limit = record.limits.get("time_limit")
    if record.ending is Ending.TIMED_OUT and isinstance(limit, int | float):
        return {"limit": {"type": "time", "limit": float(limit)}}
    return {}


def _iso_time(text: str) -> str:
    return datetime.fromisoformat(text).isoformat(timespec="seconds")


_ROLES = {"system": "system", "user": "user", "agent": "assistant"}


def _messages(trajectory: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A trajectory's steps as chat messages, with tools' results as separate messages."""
    for step in steps_of(trajectory):
        role = _ROLES.get(str(step.get("source")), "user")
        message: dict[str, Any] = {"role": role, "content": str(step.get("message") or "")}
        if role == "assistant":
            message["model"] = str(step.get("model_name") or "unknown")
            if calls := as_objects(step.get("tool_calls")):
                message["tool_calls"] = [
                    {
                        "id": str(call.get("tool_call_id")),
                        "function": str(call.get("function_name")),
                        "arguments": as_object(call.get("arguments")),
                        "type": "function",
                    }
                    for call in calls
                ]
        yield message
        for result in as_objects(as_object(step.get("observation")).get("results")):
            content, id = str(result.get("content") or ""), str(result.get("source_call_id"))
            yield {"role": "tool", "content": content, "tool_call_id": id}
