"""The data of a run for trackers, in one form for all of them: parameters, metrics, tags and the timeline."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_mlebench._version import __version__
from pytest_mlebench.defaults import MEDALS
from pytest_mlebench.io.files import regular_bytes, write_text
from pytest_mlebench.io.values import as_number, json_text, loads
from pytest_mlebench.llm.trajectory import TRAJECTORY, build
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.manifest import flatten
from pytest_mlebench.records.outcome import medal_rank
from pytest_mlebench.records.record import RUN_LOG, SUBMISSION, RunRecord
from pytest_mlebench.sandbox.redaction import Redactor, environment_secrets

MAX_TRAJECTORY = 256 << 20
MAX_ARTIFACT = 64 << 20
_SHORT = 256
Clean = Callable[[str], str]


def cleaner() -> Redactor:
    """Return a redactor for the secrets of this environment. Records were redacted when they were written; this is a
    second check, since data that has left the machine cannot be recalled."""
    return Redactor(environment_secrets())


def cached(redactor: Redactor) -> Clean:
    """``redactor.text`` with a cache for short texts: names of models and agents occur in each span."""
    known = lru_cache(1 << 12)(redactor.text)
    return lambda text: known(text) if len(text) <= _SHORT else redactor.text(text)


def write_cleaned(path: Path, values: Any, redactor: Redactor) -> None:
    """Write JSON with secrets masked."""
    write_text(path, redactor.text(json_text(values)) + "\n")


def parameters(group: RunGroup, record: RunRecord) -> dict[str, str | int | float | bool]:
    """Values that were fixed before the run: agent, competition, seed, limits, and the manifest's settings."""
    found: dict[str, Any] = {
        "agent": record.agent,
        "competition": record.competition_id,
        "seed": record.seed,
        "split": record.split,
        "category": record.category,
        "run_group": group.name,
        "bench_version": record.report.bench_version,
        "description": record.description,
        "sandbox": record.sandbox.name,
    }
    settings = {
        name: value for name, value in group.manifest.settings.items() if name not in ("agents", "competitions")
    }
    for prefix, values in (("limits", record.limits), ("versions", record.versions), ("settings", settings)):
        found |= {f"{prefix}.{name.replace(' ', '.')}": value for name, value in flatten(values)}
    return {
        name: value if isinstance(value, str | int | float) else json.dumps(value, ensure_ascii=False, default=str)
        for name, value in found.items()
        if value is not None and value != ""
    }


def metrics(record: RunRecord) -> dict[str, float]:
    """Finite numbers: score, medal (3 gold, 2 silver, 1 bronze, 0 none), percentile, cost in US dollars, tokens, …"""
    found: dict[str, Any] = {
        "score": record.score,
        "score_low": record.report.score_low,
        "score_high": record.report.score_high,
        "medal": medal_number(record.report.medal),
        "any_medal": float(record.report.any_medal),
        "above_median": float(record.report.above_median),
        "valid_submission": float(record.report.valid_submission),
        "percentile": record.report.percentile,
        "seconds": record.seconds,
        "cost": record.cost,
        "calls": record.usage.calls,
        **{f"tokens.{name}": value for name, value in record.usage.tokens.items()},
    }
    return _numbers(found)


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: found for name, value in values.items() if (found := as_number(value)) is not None}


def medal_number(medal: str | None) -> float:
    """3 for gold, 2 for silver, 1 for bronze, 0 for none."""
    return float(len(MEDALS) - medal_rank(medal))


def milliseconds(moment: str) -> int:
    """Convert a time in ISO 8601 to milliseconds since 1970."""
    return round(1000 * datetime.fromisoformat(moment).timestamp())


def timeline(record: RunRecord) -> Iterator[tuple[float, dict[str, float]]]:
    """The run's submission over time: seconds since the start, and the metrics at that time."""
    for point in record.timeline:
        found: dict[str, Any] = {name: getattr(point, name) for name in ("score", "cost", "calls")}
        found["medal"] = medal_number(point.medal)
        yield point.seconds, _numbers({f"timeline.{name}": value for name, value in found.items()})


def tags(record: RunRecord) -> dict[str, str]:
    """Tags by which runs can be searched."""
    found = {
        "run_id": record.run_id,
        "bench_version": record.report.bench_version,
        "outcome": record.outcome.value,
        "ending": record.ending.value,
        "medal": record.report.medal or "none",
        "verified_data": {True: "yes", False: "no", None: "unknown"}[record.data_verified],
        "generated_data": record.report.generated,
        "data": " ".join(f"{name}={digest}" for name, digest in sorted(record.data.items())),
        "models": ", ".join(record.models_called),
        "exported_by": f"pytest-mlebench {__version__}",
        "reason": record.reason or "",
    }
    return {f"mlebench.{name}": value for name, value in found.items() if value}


def artifacts(group: RunGroup, record: RunRecord, folder: Path, redactor: Redactor) -> list[Path]:
    """Copy a run's record, report, trajectory, log and submission to a folder, with secrets masked.

    Files larger than 64 MiB, and files in which secrets cannot be masked, are left out.
    """
    run_dir, found = group.folder / record.run_id, []
    for name, values in (("run.json", record.to_json()), ("report.json", record.report.to_json())):
        (folder / name).write_text(redactor.text(json_text(values)), encoding="utf-8")
        found.append(folder / name)
    for name in (SUBMISSION, TRAJECTORY, RUN_LOG):
        source = run_dir / name
        if source.is_file() and not source.is_symlink() and source.stat().st_size <= MAX_ARTIFACT:
            target = folder / source.name
            shutil.copyfile(source, target)
            if redactor.file(target):
                found.append(target)
    return found


def trajectory(run_dir: Path, record: RunRecord) -> Mapping[str, Any] | None:
    """The trajectory that a run wrote, or else one built from its recording; None if the run called no model."""
    with suppress(OSError, ValueError):
        found = loads(regular_bytes(run_dir / TRAJECTORY, MAX_TRAJECTORY, follow_links=False))
        if isinstance(found, dict) and isinstance(found.get("steps"), list):
            return found
    return build(run_dir, agent=record.agent)
