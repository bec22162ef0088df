"""What is told of a single run besides its row in a table: term and text, for any kind of report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pytest_mlebench.outcomes import outcome_of
from pytest_mlebench.quantities import format_score, format_seconds
from pytest_mlebench.results.record import RunRecord

_CHECKS = 20
_HOSTS = 10
_ELSEWHERE = {"validations", "connections", "unrecorded_connections"}
"""What of a sandbox's account of itself has a line of its own."""


def facts(record: RunRecord) -> list[tuple[str, str]]:
    """Terms and texts in the order of interest; several lines where there are several of a kind.

    The texts may hold what the agent wrote: they are neither plain nor escaped.
    """
    report = record.report
    better = "lower" if report.is_lower_better else "higher"
    thresholds = ", ".join(
        f"{name} {format_score(getattr(report, f'{name}_threshold'))}"
        for name in ("gold", "silver", "bronze", "median")
    )
    reason = record.error or report.error
    found = {
        "run": record.run_id,
        "outcome": outcome_of(record).category + (f": {reason}" if reason else ""),
        "ended": ending_in_words(record),
        "score": f"{format_score(record.score)}, {better} is better; {thresholds}",
        "checks": "\n".join(_checks(record.sandbox)),
        "connections": "\n".join(_connections(record.sandbox)),
        "data": _data(record),
        "sandbox": _in_words({key: value for key, value in record.sandbox.items() if key not in _ELSEWHERE}),
        "limits": _in_words(_limits(record.limits)),
        "versions": _in_words(record.versions),
        "started": record.started_at,
    }
    return [(term, text) for term, text in found.items() if text]


def ending_in_words(record: RunRecord) -> str:
    """For example ``crashed after 3.2 s (exit code 3)``."""
    return f"{record.ending} after {format_seconds(record.seconds)}" + (f" ({record.detail})" if record.detail else "")


def _data(record: RunRecord) -> str:
    known = {True: "as the reference's checksums say", False: "not the reference's", None: ""}[record.data_verified]
    return ", ".join(filter(None, [known, record.description and f"{record.description} description"]))


def _checks(sandbox: Mapping[str, Any]) -> list[str]:
    checks = sandbox.get("validations", [])
    earlier = [f"{len(checks) - _CHECKS} earlier ones"] if len(checks) > _CHECKS else []
    return earlier + [f"after {format_seconds(second)}: {verdict}" for second, verdict in checks[-_CHECKS:]]


def _connections(sandbox: Mapping[str, Any]) -> list[str]:
    counts = Counter(
        (str(made.get("host", "")), made.get("port", 0), bool(made.get("allowed")))
        for made in sandbox.get("connections", [])
    )
    lines = [
        f"{count} × {host}:{port}{'' if allowed else ' refused'}"
        for (host, port, allowed), count in counts.most_common(_HOSTS)
    ]
    others = sum(counts.values()) - sum(count for _, count in counts.most_common(_HOSTS))
    others += int(sandbox.get("unrecorded_connections", 0))
    return [*lines, f"{others} others"] if others else lines


def _limits(limits: Mapping[str, Any]) -> Mapping[str, Any]:
    """The limits with durations and sizes as one reads them."""
    shown = dict(limits)
    for key, value in limits.items():
        if isinstance(value, int | float) and key == "time_limit":
            shown[key] = format_seconds(value)
        elif isinstance(value, int | float) and key in ("memory", "disk", "log_bytes", "collect_bytes"):
            shown[key] = f"{value / (1 << 30):.4g} GiB"
    return {key.replace("_", " "): value for key, value in shown.items()}


def _in_words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items() if value not in (None, "", [], {}))
