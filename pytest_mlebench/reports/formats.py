"""Export overviews and all runs of run groups as CSV, JSON and LaTeX."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from pytest_mlebench.io.units import no_formula, one_line, plain
from pytest_mlebench.records.group import RunGroup, SplitAndCategory
from pytest_mlebench.records.outcome import THRESHOLDS
from pytest_mlebench.records.record import RunKey, RunRecord
from pytest_mlebench.reports.tables import p_value_text, runs_text
from pytest_mlebench.results.overview import (
    MEASURES,
    Overview,
    Precision,
    PublishedResult,
    SplitComparison,
    Standing,
    flags,
    precisions,
    spending,
    spending_of,
    timelines,
)
from pytest_mlebench.results.profile import fairness_profile
from pytest_mlebench.results.statistics import LEVEL, Interval, PairedDifference, Rate
from pytest_mlebench.results.summary import RATES, SplitSummary, by_split, splits_and_categories

_OF_REPORT = (
    "any_medal",
    "above_median",
    "valid_submission",
    "submission_exists",
    "score",
    "score_low",
    "score_high",
    "firm",
    "percentile",
    *(f"{name}_threshold" for name in THRESHOLDS),
    "is_lower_better",
    "thresholds",
    "generated",
)
_OF_RECORD = ("ending", "detail", "seconds", "started_at", "run_id")
_OF_MODELS = ("cost", "model_calls", "input_tokens", "output_tokens", "budget_ended")
_OVER_TIME = ("submissions", "best_score", "best_medal", "medal_lost", "validation_score", "validation_gap")
COLUMNS = (
    "group",
    *RunKey._fields,
    *SplitAndCategory._fields,
    "bench_version",
    "outcome",
    *_OF_REPORT,
    *_OF_RECORD,
    "error",
    *_OF_MODELS,
    *_OVER_TIME,
)
MISSING = "missing"
"""Outcome of a planned run without a record."""


def run_rows(groups: Sequence[RunGroup]) -> Iterator[dict[str, Any]]:
    """Yield all runs, including planned ones, with ``COLUMNS`` as keys; unknown values are None.

    ``error`` is why the harness or the grader failed, or else why the submission is invalid.
    """
    for group in groups:
        known = splits_and_categories(group)
        for key in sorted(group.planned | group.runs.keys()):
            row = dict.fromkeys(COLUMNS) | {"group": group.name, **key._asdict(), "outcome": MISSING}
            row["bench_version"] = group.version
            row |= known[key.competition_id]._asdict()
            if run := group.runs.get(key):
                row |= {name: getattr(run.report, name) for name in _OF_REPORT}
                row |= {name: getattr(run, name) for name in _OF_RECORD}
                row |= _models(run) | _over_time(run)
                row |= {"outcome": run.outcome, "error": run.reason}
            yield row


def _models(run: RunRecord) -> dict[str, Any]:
    usage = run.usage
    if usage.calls is None:
        return {}
    values = (run.cost, usage.calls, usage.tokens.get("input"), usage.tokens.get("output"), usage.budget_ended)
    return dict(zip(_OF_MODELS, values, strict=True))


def _over_time(run: RunRecord) -> dict[str, Any]:
    """``best_score`` and ``best_medal`` belong to the best recorded submission, including the final one."""
    change = run.last_change
    best = (run.score, run.report.medal) if change is None else (change.best_score, change.best_medal)
    lost = change is not None and change.medal_lost
    values = (len(run.timeline), *best, lost, run.validation_score, run.validation_gap)
    return dict(zip(_OVER_TIME, values, strict=True))


def to_csv(groups: Sequence[RunGroup]) -> str:
    """Return the runs as CSV with a header; missing values are empty."""
    return _csv(COLUMNS, run_rows(groups))


def _csv(columns: Iterable[str], rows: Iterable[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: no_formula(plain(v)) if isinstance(v, str) else v for name, v in row.items()})
    return text.getvalue()


_RATES = tuple(RATES)[:6]
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "{}$&#_%"},
}


def summary_rows(view: Overview) -> Iterator[dict[str, Any]]:
    """Yield a row for each agent and split. Rates and percentiles are in per cent; unknown values are None.

    ``*_sem`` is the standard error over seeds, ``*_low`` and ``*_high`` are the 95 % interval over competitions.
    ``cost`` (US dollars), ``tokens_in``, ``tokens_out`` and ``hours`` are sums over all recorded runs.
    """
    for summary in by_split(view.summaries):
        ids = set(summary.competition_ids)
        runs = [run for run in view.records if run.agent == summary.label and run.competition_id in ids]
        with_usage = [record for record in runs if record.usage.calls is not None]
        spent = spending_of(summary.label, summary.split, with_usage) if with_usage else None
        needed = {precision.measure: precision.seeds_needed for precision in precisions(summary)}
        yield {
            "group": summary.group,
            "agent": summary.agent,
            "split": summary.split,
            "competitions": summary.competitions,
            "seeds": summary.seeds,
            "runs": len(runs),
            "missing": summary.missing,
            "complete": not summary.is_provisional,
            **_rates(summary),
            **_bounds("any_medal", summary.interval),
            "percentile": summary.percentile,
            **_bounds("percentile", summary.percentile_interval),
            **{f"{name}_seeds_for_5": needed.get(name) for name in MEASURES},
            "cost": spent and spent.cost,
            "tokens_in": spent and spent.input_tokens,
            "tokens_out": spent and spent.output_tokens,
            "hours": sum(record.seconds for record in runs) / 3600,
            "unverified_competitions": len(summary.unverified),
        }


def to_summary_csv(view: Overview) -> str:
    """Return the rows of ``summary_rows`` as CSV with a header; missing values are empty."""
    rows = list(summary_rows(view))
    return _csv(dict.fromkeys(name for row in rows for name in row), rows)


def to_latex(view: Overview) -> str:
    """Return LaTeX tables with booktabs rules: agents by split, and every pair of agents."""
    heads = ("Agent", "Split", "Runs", "Any medal", "95 % CI", "Gold", "Silver", "Bronze", "Above median", "Valid",
        "Percentile", "95 % CI")  # fmt: skip
    rows = [
        (
            _escaped(summary.label),
            _escaped(summary.split),
            runs_text(summary).replace("×", r"$\times$"),
            _rate(summary.any_medal),
            _interval_columns(summary.interval),
            *(_rate(getattr(summary, name)) for name in _RATES[1:]),
            "--" if summary.percentile is None else f"{summary.percentile:.1f}",
            _interval_columns(summary.percentile_interval),
        )
        for summary in by_split(view.summaries)
    ]
    parts = [
        "% Requires \\usepackage{booktabs}. Per cent; mean and standard error over seeds; intervals over competitions.",
        _tabular("ll" + "r" * (len(heads) - 2), heads, rows),
    ]
    if view.comparisons:
        pair_heads = ("Agent", "Against", "Split", "Pairs", "Any medal", "95 % CI", "Percentile", "95 % CI", "$p$")
        parts += [
            "% Differences in percentage points, paired by competition and seed; p: sign test, Holm-adjusted.",
            _tabular("lll" + "r" * (len(pair_heads) - 3), pair_heads, [_pair(pair) for pair in view.comparisons]),
        ]
    return "\n".join(parts) + "\n"


def _pair(pair: SplitComparison) -> tuple[str, ...]:
    percentile = pair.percentile
    return (
        *map(_escaped, (pair.ours.label, pair.theirs.label, pair.split)),
        str(pair.difference.runs),
        _signed(pair.difference.mean),
        _interval_columns(pair.difference.interval),
        "--" if percentile is None else _signed(percentile.mean),
        _interval_columns(None if percentile is None else percentile.interval),
        p_value_text(pair.difference).replace("< ", "$<$"),
    )


def _rates(summary: SplitSummary) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name in _RATES:
        rate: Rate = getattr(summary, name)
        found[name] = None if math.isnan(rate.mean) else rate.mean
        found[f"{name}_sem"] = rate.standard_error
    return found


def _bounds(name: str, interval: Interval | None) -> dict[str, float | None]:
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    return {f"{name}_low": low, f"{name}_high": high}


def _tabular(columns: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = " & ".join(text.replace("%", r"\%") for text in heads)
    body = [" & ".join(row) + r" \\" for row in rows]
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", rf"{head} \\", r"\midrule", *body, r"\bottomrule"]
    return "\n".join([*lines, r"\end{tabular}"])


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in one_line(text))


def _rate(rate: Rate) -> str:
    if math.isnan(rate.mean):
        return "--"
    error = "" if rate.standard_error is None else rf" $\pm$ {rate.standard_error:.1f}"
    return f"{rate.mean:.1f}{error}"


def _signed(value: float) -> str:
    return f"${value:+.1f}$"


def _interval_columns(interval: Interval | None) -> str:
    return "--" if interval is None else f"[${interval.low:.1f}$, ${interval.high:.1f}$]"


_NEIGHBOURS = 2


def to_json(view: Overview) -> dict[str, Any]:
    """Return the overview as JSON values; rates and differences in per cent. See ``docs/results.md`` for the keys."""
    return {
        "pad_missing": view.pad_missing,
        "groups": [
            {
                "name": group.name,
                "folder": str(group.folder),
                "planned": len(group.planned),
                "records": len(group.runs),
                "canonical": None if group.manifest.canonical is None else asdict(group.manifest.canonical),
                "fairness": [asdict(line) for line in fairness_profile(group)],
                "broken": list(group.broken),
            }
            for group in view.groups
        ],
        "summaries": [_summary(summary) for summary in view.summaries],
        "categories": [_summary(summary) for summary in view.categories],
        "published": {
            "standings": [_standing(standing) for standing in view.standings],
            "not_ranked": list(view.not_ranked),
        },
        "comparisons": [_comparison(comparison) for comparison in view.comparisons],
        "costs": [
            {**asdict(spent), "cost_per_run": spent.cost_per_run, "cost_per_medal": spent.cost_per_medal}
            for spent in spending(view.records)
        ],
        "timelines": [asdict(timeline) for timeline in timelines(view.records)],
        "runs": list(run_rows(view.groups)),
    }


_OF_SUMMARY = ("label", "group", "agent", "split", "category", "competitions", "covers_split", "seeds", "counted_seeds",
    "left_out_seeds", "padded_seeds", "results", "missing", "note", "caution", "contaminated", "indicative",
    "unverified", "firmness", "percentile", "percentiles", "medal_rates")  # fmt: skip


def _summary(summary: SplitSummary) -> dict[str, Any]:
    return {
        **{name: getattr(summary, name) for name in _OF_SUMMARY},
        "provisional": summary.is_provisional,
        "outcomes": summary.counts,
        "any_medal_without_contaminated": summary.any_medal_without and asdict(summary.any_medal_without),
        **{name: asdict(getattr(summary, name)) for name in RATES},
        "interval": _interval(summary.interval),
        "percentile_interval": _interval(summary.percentile_interval),
        "precision": [_precision(precision) for precision in precisions(summary)],
        "pass_at_k": {str(k): value for k, value in enumerate(summary.pass_at_k, 1)},
    }


def _interval(interval: Interval | None) -> dict[str, float] | None:
    return None if interval is None else {**asdict(interval), "level": LEVEL}


def _standing(standing: Standing) -> dict[str, Any]:
    split = standing.summary.split

    def published(result: PublishedResult) -> dict[str, Any]:
        values = {name: getattr(result, name) for name in ("agent", "llm", "date", "hours")}
        return {**values, "any_medal": asdict(result.rates[split]), "flags": flags(result)}

    return {
        "label": standing.summary.label,
        "split": split,
        "rank": standing.rank,
        "of": standing.of,
        "better": [published(result) for result in standing.better[:_NEIGHBOURS]],
        "worse": [published(result) for result in standing.worse[:_NEIGHBOURS]],
        "caveats": list(standing.caveats),
    }


def _precision(precision: Precision) -> dict[str, Any]:
    shares = precision.variance.shares
    return {**asdict(precision), "interval": _interval(precision.interval), "variance_shares": shares}


def _comparison(comparison: SplitComparison) -> dict[str, Any]:
    return {
        "split": comparison.split,
        "ours": comparison.ours.label,
        "theirs": comparison.theirs.label,
        **_difference(comparison.difference),
        "percentile": comparison.percentile and _difference(comparison.percentile),
    }


def _difference(difference: PairedDifference) -> dict[str, Any]:
    values = {"difference" if name == "mean" else name: value for name, value in asdict(difference).items()}
    intervals = {name: _interval(getattr(difference, name)) for name in ("interval", "seeds_interval")}
    return values | intervals
