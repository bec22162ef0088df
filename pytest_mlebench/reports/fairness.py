"""Fairness profiles and the card of a verified bundle, as titled tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.reports.tables import Section
from pytest_mlebench.results.profile import Card, ProfileLine, Result, fairness_profile
from pytest_mlebench.results.verdicts import VERDICTS

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
