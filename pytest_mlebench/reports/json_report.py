"""An overview as JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pytest_mlebench.reports.run_table import run_rows
from pytest_mlebench.results.comparison import SplitComparison, Standing, flags
from pytest_mlebench.results.overview import RATES, Overview, spending
from pytest_mlebench.results.precision import Precision, precisions
from pytest_mlebench.results.profile import fairness_profile
from pytest_mlebench.results.published import PublishedResult
from pytest_mlebench.results.statistics import LEVEL, Interval, PairedDifference
from pytest_mlebench.results.summary import SplitSummary
from pytest_mlebench.results.timelines import timelines

_NEIGHBOURS = 2


def to_json(view: Overview) -> dict[str, Any]:
    """The overview as JSON values. Rates, differences and intervals are in per cent, intervals of 95 %.

    =================  ==================================================================================
    ``pad_missing``    whether runs without a result count as failures (else their seeds are left out)
    ``groups``         by group: its name, folder, planned runs and records, ``canonical`` (whether the
                       setting is MLE-bench's own, and the differences; null if not recorded),
                       ``fairness`` (the fairness profile: name, state and detail of each line), and
                       ``broken`` (why a file that should be a run's record could not be read)
    ``summaries``      by agent and split: see ``SplitSummary``; a rate is ``{mean, standard_error}``,
                       the latter null for a single seed; ``pass_at_k`` is by k, ``medal_rates`` by
                       competition; ``interval`` is of ``any_medal`` over competitions (Wilson's);
                       ``percentile`` is the mean percentile among all teams, ``percentiles`` by competition;
                       ``precision`` has for ``any_medal`` and ``percentile`` the variance by cause, the
                       seeds for a difference of 5 points, and how far the mean would move without each
                       competition (see ``results.precision.Precision``); ``firmness``
                       counts the medals that are ``firm``, ``not firm`` and of ``unknown`` firmness
    ``categories``     the same by category, if requested
    ``published``      ``standings``: rank ``of`` so many, with the nearest published results on either
                       side, and the ``caveats``; ``not_ranked``: who has no rank, and why
    ``comparisons``    of every two agents, by split: ``difference`` of their any-medal rates (ours minus
                       theirs) over ``runs`` of the same competition and seed, its ``interval`` over
                       competitions and ``seeds_interval`` over seeds, wins, ties and losses by
                       competition, the two-sided p-value of the sign test, ``adjusted_p_value`` for the
                       number of pairs (Holm), and the same of the ``percentile``
    ``costs``          what runs spent on language models, by agent and split, in US dollars; null where
                       the cost of a call is not known
    ``timelines``      medals over time and over money, by agent and split, and what last changes cost; see
                       ``results.timelines.Timeline``
    ``runs``           every run, with the columns of the CSV format
    =================  ==================================================================================
    """
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
            {**asdict(own), "cost_per_run": own.cost_per_run, "cost_per_medal": own.cost_per_medal}
            for own in spending(view.records)
        ],
        "timelines": [asdict(own) for own in timelines(view.records)],
        "runs": list(run_rows(view.groups)),
    }


def _summary(summary: SplitSummary) -> dict[str, Any]:
    return {
        "label": summary.label,
        "group": summary.group,
        "agent": summary.agent,
        "split": summary.split,
        "category": summary.category,
        "competitions": summary.competitions,
        "covers_split": summary.covers_split,
        "seeds": summary.seeds,
        "counted_seeds": list(summary.counted_seeds),
        "left_out_seeds": list(summary.left_out_seeds),
        "padded_seeds": list(summary.padded_seeds),
        "provisional": summary.is_provisional,
        "results": summary.results,
        "missing": summary.missing,
        "note": summary.note,
        "caution": summary.caution,
        "contaminated": list(summary.contaminated),
        "any_medal_without_contaminated": summary.any_medal_without and asdict(summary.any_medal_without),
        "indicative": list(summary.indicative),
        "unverified": list(summary.unverified),
        "firmness": dict(summary.firmness),
        "outcomes": summary.counts,
        **{name: asdict(getattr(summary, name)) for name in RATES},
        "interval": _interval(summary.interval),
        "percentile": summary.percentile,
        "percentile_interval": _interval(summary.percentile_interval),
        "percentiles": summary.percentiles,
        "precision": [_precision(own) for own in precisions(summary)],
        "pass_at_k": {str(k): value for k, value in enumerate(summary.pass_at_k, 1)},
        "medal_rates": summary.medal_rates,
    }


def _interval(interval: Interval | None) -> dict[str, float] | None:
    return None if interval is None else {**asdict(interval), "level": LEVEL}


def _standing(standing: Standing) -> dict[str, Any]:
    split = standing.summary.split

    def published(result: PublishedResult) -> dict[str, Any]:
        return {
            "agent": result.agent,
            "llm": result.llm,
            "date": result.date,
            "hours": result.hours,
            "any_medal": asdict(result.rates[split]),
            "flags": flags(result),
        }

    return {
        "label": standing.summary.label,
        "split": split,
        "rank": standing.rank,
        "of": standing.of,
        "better": [published(result) for result in standing.better[:_NEIGHBOURS]],
        "worse": [published(result) for result in standing.worse[:_NEIGHBOURS]],
        "caveats": list(standing.caveats),
    }


def _precision(own: Precision) -> dict[str, Any]:
    return {**asdict(own), "interval": _interval(own.interval), "variance_shares": own.variance.shares}


def _comparison(comparison: SplitComparison) -> dict[str, Any]:
    return {
        "split": comparison.split,
        "ours": comparison.ours.label,
        "theirs": comparison.theirs.label,
        **_difference(comparison.difference),
        "adjusted_p_value": comparison.adjusted_p,
        "percentile": comparison.percentile and _difference(comparison.percentile),
    }


def _difference(difference: PairedDifference) -> dict[str, Any]:
    return {
        "competitions": difference.competitions,
        "runs": difference.runs,
        "difference": difference.mean,
        "interval": _interval(difference.interval),
        "seeds_interval": _interval(difference.seeds_interval),
        "wins": difference.wins,
        "ties": difference.ties,
        "losses": difference.losses,
        "p_value": difference.p_value,
    }
