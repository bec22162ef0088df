"""Options that would have no effect together: a mistake of the user, which is said instead of ignored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from pytest_mlebench.errors import UsageError
from pytest_mlebench.options import AGENT, GRANTED, NEEDS, OPTIONS, RESTORED, Settings

_OF_DATA = frozenset(
    {"--agents-dir", "--competitions-dir", "--data", "--data-dir", "--data-source", "--description", "--twin-per-seed"}
)
_OF_SANDBOXES = (
    *(
        own.name
        for own in OPTIONS.values()
        if own.traits & (RESTORED | GRANTED) and AGENT not in own.needs and own.name not in _OF_DATA
    ),
    "--keep-sandbox",
)
"""What runs use, and tests of one's own with the fixtures ``run_agent`` and ``sandbox``."""


def check(settings: Settings, given: AbstractSet[str]) -> None:
    """See that each option on the command line, of which these are ``given``, has an effect; raises UsageError."""
    if problem := next(_problems(settings, given), None):
        raise UsageError(problem)


def without_effect(settings: Settings, given: AbstractSet[str]) -> list[str]:
    """Options that have an effect only where the session's own tests run agents, which is not known yet."""
    return [] if settings.has_runs else [name for name in _OF_SANDBOXES if name in given]


def _problems(settings: Settings, given: AbstractSet[str]) -> Iterator[str]:
    if settings.has_runs:
        if "--real-data" in given:
            yield "--real-data checks graders, which --agent does not: leave one of them out"
        if "--retry-failed" in given and not (settings.resume or settings.run_group):
            yield "--retry-failed needs the run group whose failures to run again: add --resume=GROUP"
    elif settings.split is not None:  # the competitions check themselves
        if ignored := _given(_OF_SANDBOXES, given):
            yield f"{ignored} {AGENT.problem}"
        if (
            ignored := _given(("--prepare", "--data", "--data-source", "--description"), given)
        ) and not settings.real_data:
            yield f"{ignored} needs --agent=ID or --real-data: without them, checks use synthetic data"
    if "--data-source" in given and settings.has_twins:
        yield "--data-source has real data, and --data=twin asks for generated data: leave one of them out"
    if "--data-source" in given and settings.prepare == "never":
        yield "--data-source is where missing data is taken from, which --prepare=never forbids: leave one of them out"
    for need in NEEDS:
        names = [own.name for own in OPTIONS.values() if need in own.needs]
        if (ignored := _given(names, given)) and not need.is_met(settings):
            yield f"{ignored} {need.problem.format(cluster=settings.cluster, network=settings.network)}"


def _given(names: Sequence[str], given: AbstractSet[str]) -> str:
    return ", ".join(name for name in names if name in given)
