"""What verifying a bundle does not check, named each time: claims for which a bundle holds no evidence."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_mlebench.extras.bundles.bundle import MADE_BY, Bundle, is_known
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.io.values import loads
from pytest_mlebench.llm.ledger import BODIES
from pytest_mlebench.records.group import RunGroup, runs_in_progress
from pytest_mlebench.records.record import RECORD
from pytest_mlebench.results.findings import FINDINGS, MEASURED
from pytest_mlebench.runs.files import NOT_GRADED

ALWAYS = (
    "machines: processors, memory, GPUs, operating systems, versions of Python and of libraries are as the maker says",
    "times: they agree with each other, and come from the maker's clocks",
    "how runs ended: exit codes, signals, details, and errors of the harness are as the maker says",
    "sandboxes: images, network policy, connections, checks of submissions, GPU use and confinement are as the maker "
    "says",
    "permissions: what the user granted and which secrets agents had are as the maker says; what was used agrees with "
    "the sandboxes and connections in the records",
    "agents: whether the definition and the folder in the manifest are what ran",
    "code and logs: whether the code in the bundle made the submissions (`mlebench reproduce` runs it again)",
    "model calls: whether ledgers and recordings are what providers answered and charged",
    "completeness: whether runs, seeds or earlier groups were left out of plan and records alike",
    "sessions: options, title, note, owner and the log of events are as the maker says",
)
"""What no bundle can show."""
_SHOWN = 5


def not_checked(bundle: Bundle, group: RunGroup | None) -> Iterator[str]:
    """Every claim of a bundle that verifying it does not check; ``group`` is None where it cannot be read."""
    yield from ALWAYS
    if group is None:
        return
    if bundle.signature is None:
        yield "who made the bundle: it is not signed"
    if bundle.index.made_by != MADE_BY:
        yield f"tables: what only {bundle.index.made_by[:50]}, which made the bundle, or only this version has in them"
    skipped = sum((p.error or "").startswith(NOT_GRADED) for record in group.records for p in record.timeline)
    if silent_records := sum(not record.permissions for record in group.records):
        yield f"permissions: what the user granted, of {pluralize(silent_records, 'run')} whose records do not say it"
    if skipped:
        yield f"timelines: {pluralize(skipped, 'snapshot')} were never graded"
    silent = [r for r in group.records if r.usage.calls and not (group.folder / r.run_id / BODIES).is_file()]
    if silent:
        yield f"model calls: what was said in {pluralize(len(silent), 'run')}, which is not in the bundle"
    if off := sum(record.usage.gateway == "off" for record in group.records):
        yield f"model calls: {pluralize(off, 'run')} called models past the gateway, which left no ledger"
    if sources := {record.data_source for record in group.records} - {""}:
        yield f"data: that it was fetched from {', '.join(sorted(sources))[:300]}"
    if jobs := sum(bool(record.job) for record in group.records):
        yield f"jobs: which cluster job did a run, of {pluralize(jobs, 'run')}"
    if (bundle.folder / FINDINGS).is_file():
        yield "the audit in the bundle: a judge's votes and comparisons with notebooks are not made again"
    if list(bundle.folder.glob(MEASURED)):
        yield "familiarity: models are not asked again for the probabilities that it follows from"
    if attempts := len(runs_in_progress(group.folder)):
        yield f"interrupted attempts: {pluralize(attempts, 'directory')} of runs without a record"
    if earlier := len(list(group.folder.glob(f"*/{RECORD}"))) - len(group.records):
        yield f"earlier attempts: {pluralize(earlier, 'record')} that later ones replace"
    yield from _unknown(bundle, group)


def _unknown(bundle: Bundle, group: RunGroup) -> Iterator[str]:
    """Files, and keys of records, that verifying knows nothing of."""
    files = [entry.path for entry in bundle.index.files if not is_known(entry.path)]
    if files:
        more = ", …" if len(files) > _SHOWN else ""
        yield f"{pluralize(len(files), 'file')} that are no part of a run group: {', '.join(files[:_SHOWN])}{more}"
    for record in group.records:
        values = loads((group.folder / record.run_id / RECORD).read_bytes())
        if isinstance(values, dict) and (keys := sorted(values.keys() - record.to_json().keys())):
            yield f"{record.run_id}: keys that a record does not have: {', '.join(keys)[:200]}"
