"""Exports results in the format of Every Eval Ever, a common schema and corpus of evaluations, with one file per agent.

A file has medal rates by split, with the confidence intervals of the reports, and each competition's mean score over
seeds. Paths are those of the corpus: ``data/mle-bench/<developer>/<model>/<UUID>.json``. The UUID is derived from the
group and the agent, so a second export replaces the files. The package of the extra ``eee`` validates them.
"""

from __future__ import annotations

import hashlib
import logging
import math
import re
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from pytest_mlebench._version import __version__
from pytest_mlebench.catalog.catalogue import default_catalogue
from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.interop import facts
from pytest_mlebench.extras.interop.contract import ExportOption, Request, third_party
from pytest_mlebench.io.values import write_json
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.outcome import TWIN_DATA
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.results.statistics import Rate
from pytest_mlebench.results.summary import SplitSummary, summarise

logger = logging.getLogger("pytest_mlebench")

SUMMARY = "results for the common corpus of Every Eval Ever"
OPTIONS = (
    ExportOption("--organization", "NAME", "who ran the evaluation (default: unknown)"),
    ExportOption("--relationship", "WHICH", "first_party, third_party, collaborative or other (evaluator to model)"),
)
SCHEMA_VERSION = "0.3.0"
RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
_DEVELOPERS = {"gemini": "google", "gemini-openai": "google"}
"""The developers of models by provider, if their names differ."""
_RATES = {
    "any_medal": "any medal",
    "gold": "gold medal",
    "silver": "silver medal",
    "bronze": "bronze medal",
    "above_median": "above the median",
    "valid": "valid submission",
}


def export(group: RunGroup, request: Request) -> Iterator[str]:
    """Write and validate the file of each agent; raises UsageError if the package rejects one."""
    relationship = request.options.get("--relationship", "other")
    if relationship not in RELATIONSHIPS:
        raise UsageError(f"--relationship: {relationship!r} must be one of {', '.join(RELATIONSHIPS)}")
    source = {
        "source_name": "pytest-mlebench",
        "source_type": "evaluation_run",
        "source_organization_name": request.options.get("--organization", "unknown"),
        "evaluator_relationship": relationship,
    }
    folder, clean, written = request.folder(group), facts.cleaner().text, list[Path]()
    summaries = summarise([group])
    for agent in group.agents:
        records = [record for record in group.records if record.agent == agent]
        whole = _log(group, agent, records, [summary for summary in summaries if summary.agent == agent], source, clean)
        log = _cleaned(whole, clean)
        if records and log["evaluation_results"]:
            model = log["model_info"]["id"].split("/")
            digest = hashlib.sha256(f"{group.name}\0{agent}".encode()).digest()
            name = f"{uuid.UUID(bytes=digest[:16], version=4)}.json"
            path = folder / "data/mle-bench" / model[0] / "_".join(model[1:]) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, log)
            written.append(path)
    if not written:
        raise UsageError(f"no run of {group.name} has a result: there is nothing to export")
    _validate(folder, written)
    yield from map(str, written)


def _validate(folder: Path, files: list[Path]) -> None:
    try:
        validator = third_party("every_eval_ever.validator", "eee")
    except UsageError as error:
        logger.warning("warning: the files were not validated: %s (Python 3.12 or later)", error)
        return
    for path in files:
        name = path.relative_to(folder).as_posix()
        report = validator.validate_file(path, repo_path=name, run_semantic_checks=True)
        problems = [f"{item.get('loc')}: {item.get('msg')}" for item in [*report.errors, *report.warnings]]
        if problems:
            raise UsageError(f"{path} does not conform to the schema of Every Eval Ever: {'; '.join(problems)[:1000]}")


def _log(
    group: RunGroup,
    agent: str,
    records: list[RunRecord],
    summaries: list[SplitSummary],
    source: dict[str, str],
    clean: facts.Clean,
) -> dict[str, Any]:
    ended = max((record.ended_at for record in records), default="")
    model = _model(agent, records, clean)
    limits = {name: str(value) for name, value in (records[0].limits if records else {}).items() if value is not None}
    shared = {"evaluation_timestamp": ended, "generation_config": {"additional_details": {"agent": agent, **limits}}}
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"mle-bench/{model['id']}/{group.name}-{_component(agent)}",
        "evaluation_timestamp": ended,
        "retrieved_timestamp": str(facts.milliseconds(ended) / 1000) if ended else "0",
        "source_metadata": source,
        "eval_library": {
            "name": "pytest-mlebench",
            "version": __version__,
            "additional_details": {"agent": agent, "run_group": group.name, "bench_version": group.version, **limits},
        },
        "model_info": model,
        "evaluation_results": [{**result, **shared} for result in (*_medals(summaries), *_scores(group, records))],
    }


def _model(agent: str, records: list[RunRecord], clean: facts.Clean) -> dict[str, Any]:
    """The model that answered most calls; the agent's name stands in if it called none."""
    calls = Counter[str]()
    providers: dict[str, str] = {}
    for called, usage in (pair for record in records for pair in record.usage.models.items()):
        calls[clean(called)] += usage.calls
        providers[clean(called)] = usage.provider or "other"
    name = max(calls, key=lambda model: calls[model], default=f"without-a-model/{agent}")
    provider = providers.get(name, "none")
    parts = name.split("/") if "/" in name else [_DEVELOPERS.get(provider, provider), name]
    return {
        "name": name,
        "id": "/".join(_component(part) for part in parts),
        "developer": _component(parts[0]),
        "inference_platform": provider,
        "additional_details": {
            "deployment_type": "unknown",
            "model_availability": "unknown",
            "agent": agent,
            "calls_by_model": ", ".join(f"{model}: {count}" for model, count in sorted(calls.items())),
        },
    }


def _medals(summaries: list[SplitSummary]) -> Iterator[dict[str, Any]]:
    for summary in summaries:
        for field, label in _RATES.items():
            rate: Rate = getattr(summary, field)
            if math.isnan(rate.mean):
                continue
            uncertainty: dict[str, Any] = {"num_samples": summary.competitions * max(1, summary.seeds)}
            if rate.standard_error is not None:
                uncertainty["standard_error"] = {"value": rate.standard_error, "method": "over seeds"}
            if field == "any_medal" and (interval := summary.interval) is not None:
                method = "over competitions: bootstrap, or Wilson if fewer than 10 or all equal"
                uncertainty["confidence_interval"] = _interval(interval.low, interval.high, method)
            yield {
                "evaluation_result_id": f"{summary.split}.{field}",
                "evaluation_name": f"MLE-bench {summary.split}: {label}",
                "source_data": _source(f"MLE-bench {summary.split}", competitions=", ".join(summary.competition_ids)),
                "metric_config": {
                    "evaluation_description": f"share of runs: {label}",
                    "metric_id": f"mle-bench.{field}",
                    "metric_name": label,
                    "metric_kind": "pass_rate",
                    "metric_unit": "percent",
                    "lower_is_better": False,
                    "score_type": "continuous",
                    "min_score": 0.0,
                    "max_score": 100.0,
                },
                "score_details": {"score": rate.mean, "uncertainty": uncertainty, "details": {"note": summary.caution}},
            }


def _scores(group: RunGroup, records: list[RunRecord]) -> Iterator[dict[str, Any]]:
    catalogue = default_catalogue(version=group.version)
    for id in sorted({record.competition_id for record in records}):
        runs = [record for record in records if record.competition_id == id]
        scores = [record.score for record in runs if record.score is not None and math.isfinite(record.score)]
        if not scores:
            continue
        uncertainty: dict[str, Any] = {"num_samples": len(scores)}
        if len(scores) > 1:
            spread = stdev(scores)
            error = {"value": spread / math.sqrt(len(scores)), "method": "over seeds"}
            uncertainty |= {"standard_deviation": spread, "standard_error": error}
        elif (low := runs[0].report.score_low) is not None and (high := runs[0].report.score_high) is not None:
            uncertainty["confidence_interval"] = _interval(low, high, "bootstrap over the test's rows")
        medals = ", ".join(f"seed {record.seed}: {record.outcome.label}" for record in runs)
        yield {
            "evaluation_result_id": id,
            "evaluation_name": f"MLE-bench{' twin' if runs[0].is_twin else ''}: {id}",
            "source_data": _source(
                id,
                digests=str(dict(runs[0].data)),
                verified=str(runs[0].data_verified),
                **({"generated": TWIN_DATA} if runs[0].is_twin else {}),
            ),
            "metric_config": {
                "metric_id": f"mle-bench.{id}",
                "metric_name": catalogue[id].metric if id in catalogue else "score",
                "lower_is_better": runs[0].report.is_lower_better,
            },
            "score_details": {"score": mean(scores), "uncertainty": uncertainty, "details": {"outcomes": medals}},
        }


def _interval(low: float, high: float, method: str) -> dict[str, Any]:
    return {"lower": low, "upper": high, "confidence_level": 0.95, "method": method}


def _source(name: str, **details: str) -> dict[str, Any]:
    return {"dataset_name": name, "source_type": "other", "additional_details": details}


def _component(text: str) -> str:
    """Convert a text to a path component of the corpus."""
    found = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip(".- ")[:100]
    is_taken = found.lower() in ("", "data", "unknown", "con", "prn", "aux", "nul")
    return f"model-{found or 'unnamed'}" if is_taken else found


def _cleaned(value: Any, clean: facts.Clean) -> Any:
    if isinstance(value, dict):
        return {key: _cleaned(item, clean) for key, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item, clean) for item in value]
    return clean(value) if isinstance(value, str) else value
