"""How sure and how fair results are, and every pair of agents compared, as titled tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.manifest import changes
from pytest_mlebench.reports.tables import Section, Table, short
from pytest_mlebench.reports.verdict import headlines
from pytest_mlebench.results.comparison import Precision, SplitComparison, precisions
from pytest_mlebench.results.findings import VERDICTS
from pytest_mlebench.results.overview import Overview
from pytest_mlebench.results.profile import Card, ProfileLine, Result, fairness_profile
from pytest_mlebench.results.statistics import DIFFERENCE, MOST_SEEDS, POWER, Interval, PairedDifference
from pytest_mlebench.results.summary import SplitSummary, split_rank

_SHOWN_PAIRS = 10
"""So many pairs of agents a terminal shows; Markdown, HTML and JSON have all."""
_SHOWN_INFLUENCES = 3
_SHOWN_CHANGES = 8
_SHOWN_TEXT = 200
_WORDS = {"any_medal": "any medal", "percentile": "percentile"}
_CAUSES = (
    "Competition, seed, test rows: the share of each in the variance of a run's result; it needs two seeds. "
    f"Seeds for {DIFFERENCE:g}: how many seeds reveal a difference of {DIFFERENCE:g} points from a similar agent in "
    f"{POWER:g} of 100 cases, on these competitions. Shown now: the difference that the present seeds reveal as often. "
    "Below: the rate without the competition that changes it most."
)
_POINTS = (
    "Differences are in percentage points, over pairs of runs of the same competition and seed. 6 on 3: six pairs, "
    "three competitions. The 95 % interval generalizes to similar competitions, the one over seeds to more seeds of "
    "the same competitions. p: two-sided exact sign test over competitions"
)


def precision_sections(view: Overview, *, details: bool = False) -> Iterator[Section]:
    """How sure each agent's results are: on the whole, or with ``details`` on every split."""
    chosen = sorted(view.summaries, key=lambda own: split_rank(own.split)) if details else headlines(view)
    found = [(summary, own) for summary in chosen for own in precisions(summary) if own.competitions > 1]
    if not found:
        return
    heads = ("split", "agent", "measure", "competition", "seed", "test rows", f"seeds for {DIFFERENCE:g}", "shown now")
    rows = [_precision_row(summary, own) for summary, own in found]
    table = Table(heads, rows, frozenset(heads[3:]), ("shown now", "measure"))
    remarks = [_CAUSES]
    if partial := [own for _, own in found if 0 < own.with_rows < own.scored]:
        share = min(100 * own.with_rows / own.scored for own in partial)
        remarks.append(
            f"Test rows: known of {share:.0f} % or more of the runs with a score, and taken to be alike in the others."
        )
    shown = _SHOWN_INFLUENCES if details else 1
    remarks += [_influences(summary, own, shown) for summary, own in found if own.measure == "any_medal"]
    yield Section("How sure these results are", [table], remarks)


def _precision_row(summary: SplitSummary, own: Precision) -> tuple[str, ...]:
    shares = own.variance.shares
    needed = own.seeds_needed
    return (
        summary.split,
        short(summary.label),
        _WORDS[own.measure],
        *(f"{shares[cause]:.0f} %" if cause in shares else "-" for cause in ("competitions", "seeds", "rows")),
        "-" if needed is None else f"{needed:,}" if needed < MOST_SEEDS else f"> {MOST_SEEDS:,}",
        "-" if own.detectable is None else f"> {100}" if own.detectable > 100 else f"{own.detectable:.1f}",
    )


def _influences(summary: SplitSummary, own: Precision, shown: int) -> str:
    moved = [f"{own.mean + shift:.1f} without {id}" for id, shift in list(own.influences.items())[:shown]]
    return f"{summary.label} on {summary.split}: any medal {own.mean:.1f}, {', '.join(moved)}"


def paired_sections(view: Overview, *, details: bool = False) -> Iterator[Section]:
    """Every pair of agents; without ``details`` only so many as a terminal should show."""
    shown = view.comparisons if details else _foremost(view.comparisons)
    if not shown:
        return
    several = len({(own.ours.label, own.theirs.label) for own in view.comparisons}) > 1
    tables = [_pairs([(own, own.difference) for own in shown], several=several)]
    if percentiles := [(own, own.percentile) for own in shown if own.percentile is not None]:
        tables.append(_pairs(percentiles, several=several, what="percentile"))
    first = shown[0]
    who = "The first agent minus the second" if several else f"{first.ours.label} minus {first.theirs.label}"
    remarks = [f"{who}. {_POINTS}{_ADJUSTED if several else ''}.", *_setting_differences(view.groups)]
    if len(shown) < len(view.comparisons):
        remarks.append(f"{len(view.comparisons) - len(shown)} more comparisons: --format=md or json shows all")
    yield Section("Paired comparison", tables, remarks)


_ADJUSTED = ", adjusted for the number of pairs (Holm)"


def _foremost(comparisons: Sequence[SplitComparison]) -> Sequence[SplitComparison]:
    """All, or those over the whole benchmark, if there are too many."""
    if len(comparisons) <= _SHOWN_PAIRS:
        return comparisons
    whole = [own for own in comparisons if own.ours.is_whole]
    return (whole or comparisons)[:_SHOWN_PAIRS]


def _pairs(
    found: Sequence[tuple[SplitComparison, PairedDifference]], *, several: bool, what: str = "any medal"
) -> Table:
    names = ("first", "second") if several else ()
    counts = ("wins", "ties", "losses")
    heads = ("split", *names, "pairs", what, "95 % interval", "over seeds", *counts, "p")
    rows = [
        (
            comparison.split,
            *((short(comparison.ours.label), short(comparison.theirs.label)) if several else ()),
            f"{own.runs} on {own.competitions}",
            f"{own.mean:+.1f}",
            interval_text(own.interval),
            interval_text(own.seeds_interval),
            str(own.wins),
            str(own.ties),
            str(own.losses),
            _p_value(comparison.adjusted_p if what == "any medal" else own.p_value),
        )
        for comparison, own in found
    ]
    spare = (*reversed(counts), "over seeds")
    return Table(heads, rows, frozenset(heads[len(names) + 1 :]), spare)


def _setting_differences(groups: Sequence[RunGroup]) -> list[str]:
    """What differs between the settings of two groups, in a sentence; nothing where it is not known."""
    if len(groups) != 2 or not all(group.manifest.settings for group in groups):
        return []
    ours, theirs = groups
    found = changes(theirs.manifest.settings, ours.manifest.settings)
    if not found:
        return [f"the settings of {ours.name} and {theirs.name} are the same"]
    more = f"; and {len(found) - _SHOWN_CHANGES} more" if len(found) > _SHOWN_CHANGES else ""
    shown = "; ".join(text[:_SHOWN_TEXT] for text in found[:_SHOWN_CHANGES])
    return [f"what differs in {ours.name} from {theirs.name}: {shown}{more}"]


def interval_text(interval: Interval | None) -> str:
    return "-" if interval is None else str(interval)


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


_SHOWN = 20
"""Reasons that are shown of each check."""
_NEEDED = (
    "it shows that the files agree with each other and with the data; a published digest or a signature shows whose"
)


def fairness_sections(groups: Sequence[RunGroup]) -> Iterator[Section]:
    """The fairness profile of each group."""
    for group in groups:
        name = f"Fairness profile, {group.name}" if len(groups) > 1 else "Fairness profile"
        yield Section(name, remarks=_profile(fairness_profile(group)))


def card_sections(card: Card) -> Iterator[Section]:
    """What verifying a bundle came to: the verdict first, then each check, the findings, and what was not checked."""
    remarks = [f"{text}" for text in card.warnings]
    remarks += [f"{check.name}: {check.result}: {check.detail}" for check in card.checks]
    remarks += [f"{check.name}: {reason}" for check in card.checks for reason in check.reasons[:_SHOWN]]
    remarks += [
        f"{check.name}: and {len(check.reasons) - _SHOWN} more" for check in card.checks if len(check.reasons) > _SHOWN
    ]
    remarks += [f"left out: {text}" for text in card.left_out]
    remarks += [f"SHA-256 of the index: {card.digest}"]
    if card.result is Result.verified and all(check.name != "signature" for check in card.checks):
        remarks.append(f"not signed: {_NEEDED} they are")
    yield Section(f"{card.run_group}: {card.headline}", remarks=remarks)
    if found := list(_findings(card)):
        yield Section("Findings of this audit", remarks=found)
    yield Section("Not checked", remarks=card.not_checked)
    if card.profile:
        yield Section("Fairness profile", remarks=_profile(card.profile))


def _findings(card: Card) -> Iterator[str]:
    """The worst findings first, so many of them."""
    found = () if card.findings is None else card.findings.findings
    ordered = sorted(found, key=lambda own: -VERDICTS.index(own.verdict))
    for own in ordered[:_SHOWN]:
        place = f" [{own.file}{'' if own.line is None else f':{own.line}'}]" if own.file else ""
        yield f"{own.run_id}: {own.verdict} ({own.scanner}): {own.text}{place}"
    if len(ordered) > _SHOWN:
        yield f"and {len(ordered) - _SHOWN} more"


def _profile(lines: Sequence[ProfileLine]) -> list[str]:
    """As sentences, which wrap where a terminal is narrow."""
    return [f"{line.name}: {line.state}: {line.detail}" for line in lines]
