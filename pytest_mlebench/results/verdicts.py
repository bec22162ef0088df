"""What the last audit of a run group says of its runs, for every report that shows their results.

An audit writes ``audit.json`` into the group: an object with ``runs`` (the ids of the runs that were audited) and
``findings`` (objects with ``run_id`` and ``verdict``: ``clean``, ``look`` or ``violation``). This module reads nothing
else of it, so that reports need not know what an audit is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pytest_mlebench.io.json_files import loads
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.report import TWIN, TWIN_DATA

AUDIT = "audit.json"
LOCAL = "local"
VERDICTS = ("clean", "look", "violation")
"""The worst last."""
NOT_ISOLATED = "nothing was isolated: agents could read the answers, other runs and the network"
SAYS_NOTHING = "scores say nothing about the real competition"
_MAX_BYTES = 64 << 20


def read_verdicts(group_dir: Path) -> Mapping[str, str] | None:
    """The worst verdict of each audited run, by run id; None where there was no audit.

    Raises OSError, or ValueError for a file that is no audit.
    """
    path = group_dir / AUDIT
    if not path.is_file():
        return None
    if path.stat().st_size > _MAX_BYTES:
        raise ValueError(f"it has more than {_MAX_BYTES} bytes")
    values = loads(path.read_bytes())
    try:
        found = {str(run_id): VERDICTS[0] for run_id in values["runs"]}
        for finding in values.get("findings") or ():
            run_id, verdict = str(finding["run_id"]), finding["verdict"]
            if run_id in found:
                found[run_id] = max(found[run_id], verdict, key=VERDICTS.index)
    except (TypeError, LookupError, AttributeError) as error:
        raise ValueError(f"it is no audit: {error}") from error
    return found


def of_verdicts(verdicts: Iterable[str | None]) -> str:
    """For example ``2 of 3 runs have violations, 1 needs a look``.

    >>> of_verdicts(["violation", "look", "violation"])
    '2 of 3 runs have violations, 1 needs a look'
    >>> of_verdicts(["clean"])
    'no violation found in 1 run'
    """
    counts = Counter(verdicts)
    runs = pluralize(counts.total(), "run")
    found = []
    if bad := counts["violation"]:
        found.append(f"{bad} of {runs} {_have(bad)} violations")
    if look := counts["look"]:
        found.append(f"{look}{'' if bad else f' of {runs}'} {'needs' if look == 1 else 'need'} a look")
    if unknown := counts[None]:
        found.append(f"{unknown}{'' if found else f' of {runs}'} {_have(unknown)} not been audited")
    return ", ".join(found) or f"no violation found in {runs}"


def caveats(group: RunGroup) -> Iterator[str]:
    """What stands above a group's results: that data is generated, nothing was isolated, what its last audit found."""
    ids = {record.competition_id for record in group.records}
    twins = {record.competition_id for record in group.records if record.twin or record.report.generated == TWIN}
    synthetic = {record.competition_id for record in group.records if record.synthetic_data} - twins
    for mark, found in ((TWIN_DATA, twins), (f"synthetic data: {SAYS_NOTHING}", synthetic)):
        if found:
            which = "" if found == ids else f" ({len(found)} of {pluralize(len(ids), 'competition')})"
            what, _, why = mark.partition(":")
            yield f"{what.capitalize()}{which}:{why}."
    local = sum(record.sandbox.name == LOCAL for record in group.records)
    if local:
        which = "" if local == len(group.records) else f"{local} of {pluralize(len(group.records), 'run')}: "
        yield f"Local sandbox: {which}{NOT_ISOLATED}."
    try:
        verdicts = read_verdicts(group.folder)
    except (OSError, ValueError):
        yield "The audit of this group cannot be read."
        return
    if verdicts is not None and group.records:
        yield f"Audit: {of_verdicts(verdicts.get(record.run_id) for record in group.records)}."


def _have(count: int) -> str:
    return "has" if count == 1 else "have"
