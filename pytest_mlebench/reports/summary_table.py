"""One row for each agent and split, as CSV and JSON for further work, and as LaTeX for a paper."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_mlebench.io.json_files import json_text
from pytest_mlebench.reports.untrusted import no_formula, one_line, plain
from pytest_mlebench.results.comparison import SplitComparison
from pytest_mlebench.results.overview import Overview, spending_of
from pytest_mlebench.results.precision import MEASURES, precisions
from pytest_mlebench.results.statistics import Interval, Rate
from pytest_mlebench.results.summary import SplitSummary, split_rank

_RATES = ("any_medal", "gold", "silver", "bronze", "above_median", "valid")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "{}$&#_%"},
}


def summary_rows(view: Overview) -> Iterator[dict[str, Any]]:
    """A row for each agent and split; rates, percentiles and their errors in per cent, None for what is not known.

    ``*_sem`` is the standard error over seeds, ``*_low`` and ``*_high`` are the 95 % interval over competitions.
    ``cost`` (US dollars), ``tokens_in``, ``tokens_out`` and ``hours`` are sums over all recorded runs.
    """
    for summary in _ordered(view):
        runs = [
            record
            for record in view.records
            if record.agent == summary.label and record.competition_id in set(summary.competition_ids)
        ]
        asked = [record for record in runs if "calls" in record.llm]
        spent = spending_of(summary.label, summary.split, asked) if asked else None
        precise = {own.measure: own for own in precisions(summary)}
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
            **{f"{name}_seeds_for_5": precise[name].seeds_needed if name in precise else None for name in MEASURES},
            "cost": None if spent is None else spent.cost,
            "tokens_in": None if spent is None else spent.input_tokens,
            "tokens_out": None if spent is None else spent.output_tokens,
            "hours": sum(record.seconds for record in runs) / 3600,
            "unverified_competitions": len(summary.unverified),
        }


def to_summary_json(view: Overview) -> str:
    return json_text(list(summary_rows(view)))


def to_summary_csv(view: Overview) -> str:
    """The rows as comma-separated values with a header; a field without a value is empty."""
    rows, text = list(summary_rows(view)), io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: no_formula(plain(own)) if isinstance(own, str) else own for name, own in row.items()})
    return text.getvalue()


def to_latex(view: Overview) -> str:
    """Tables for a paper, with the rules of the package booktabs: agents by split, and every pair of agents."""
    heads = ("Agent", "Split", "Runs", "Any medal", "95 % CI", "Gold", "Silver", "Bronze", "Above median", "Valid",
        "Percentile", "95 % CI")  # fmt: skip
    rows = [
        (
            _escaped(summary.label),
            _escaped(summary.split),
            _runs(summary),
            _rate(summary.any_medal),
            _interval(summary.interval),
            *(_rate(getattr(summary, name)) for name in _RATES[1:]),
            "--" if summary.percentile is None else f"{summary.percentile:.1f}",
            _interval(summary.percentile_interval),
        )
        for summary in _ordered(view)
    ]
    parts = [
        "% Needs \\usepackage{booktabs}. Per cent, mean and standard error over seeds; intervals over competitions.",
        _tabular("ll" + "r" * (len(heads) - 2), heads, rows),
    ]
    if view.comparisons:
        of_pairs = ("Agent", "Against", "Split", "Pairs", "Any medal", "95 % CI", "Percentile", "95 % CI", "$p$")
        parts += [
            "% Differences in percentage points, paired by competition and seed; p: sign test, Holm-adjusted.",
            _tabular("lll" + "r" * (len(of_pairs) - 3), of_pairs, [_pair(own) for own in view.comparisons]),
        ]
    return "\n".join(parts) + "\n"


def _pair(own: SplitComparison) -> tuple[str, ...]:
    other = own.percentile
    return (
        *map(_escaped, (own.ours.label, own.theirs.label, own.split)),
        str(own.difference.runs),
        _signed(own.difference.mean),
        _interval(own.difference.interval),
        "--" if other is None else _signed(other.mean),
        _interval(None if other is None else other.interval),
        "$<$0.001" if own.adjusted_p < 0.001 else f"{own.adjusted_p:.3f}",
    )


def _ordered(view: Overview) -> list[SplitSummary]:
    return sorted(view.summaries, key=lambda own: split_rank(own.split))


def _runs(summary: SplitSummary) -> str:
    if summary.is_provisional:
        return f"{summary.results} of {summary.results + summary.missing}"
    return rf"{summary.competitions} $\times$ {summary.seeds}"


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
    head = " & ".join(own.replace("%", r"\%") for own in heads)
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


def _interval(interval: Interval | None) -> str:
    return "--" if interval is None else f"[${interval.low:.1f}$, ${interval.high:.1f}$]"
