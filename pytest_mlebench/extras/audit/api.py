"""``Bench.audit``: runs the scanners on a run group and, on request, a judge and a plagiarism comparison."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pytest_mlebench.bench import Bench
from pytest_mlebench.errors import UsageError, unusable
from pytest_mlebench.extras.audit.evidence import Case, case_of
from pytest_mlebench.extras.audit.fingerprints import LANGUAGES, Fingerprinter, default_parameters
from pytest_mlebench.extras.audit.judge import FOLDER, SCANNER, Judge, JudgeOptions
from pytest_mlebench.extras.audit.kernels import Kernels, kernels
from pytest_mlebench.extras.audit.page import page
from pytest_mlebench.extras.audit.plagiarism import SCANNER as PLAGIARISM
from pytest_mlebench.extras.audit.plagiarism import Comparison
from pytest_mlebench.extras.audit.run import AuditedRun, runs_of
from pytest_mlebench.extras.audit.scanners import audit as scan
from pytest_mlebench.io.files import AnyPath
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.io.values import write_json
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.results.findings import PAIRS, PAIRS_PAGE, Finding, Findings, read_findings
from pytest_mlebench.runs.files import regular_files

logger = logging.getLogger("pytest_mlebench")


@dataclass(frozen=True, kw_only=True)
class PlagiarismOptions:
    """What to compare code with, in addition to public notebooks: the runs of the other ``groups``. ``boilerplate``
    lists files or folders of code that agents were given, which is ignored."""

    groups: Sequence[RunGroup] = ()
    boilerplate: Sequence[Path] = ()


def audit(
    bench: Bench,
    group: AnyPath | RunGroup,
    *,
    judge: JudgeOptions | None = None,
    plagiarism: PlagiarismOptions | None = None,
) -> Findings:
    """Search the code, logs, model calls and submissions of a run group for unfair behaviour.

    The findings are evidence for a human reader, and are written to ``audit.json`` in the group. Findings of a judge or
    a plagiarism comparison from an earlier audit are kept if this audit runs without one. Raises UsageError.
    """
    run_group = group if isinstance(group, RunGroup) else bench.group(group)
    graders = bench.regrader(run_group.version)
    cases: list[Case] = []
    readers: list[Callable[[AuditedRun], object]] = []
    ask = None if judge is None else Judge(judge, bench.gateway, run_group.folder / FOLDER)
    if ask is not None:
        readers.append(lambda run: cases.append(case_of(run)))
    earlier = _earlier(run_group)
    if plagiarism is None:
        scanned = scan(runs_of(run_group, graders), *readers)
        if earlier.plagiarism is not None:
            scanned = _added(scanned, _kept(earlier, scanned, PLAGIARISM), plagiarism=earlier.plagiarism)
    else:
        with Fingerprinter(default_parameters()) as fingerprinter:
            compared = _comparison(bench, plagiarism, fingerprinter)
            scanned = scan(runs_of(run_group, graders), *readers, compared.add)
            similar, pairs, plagiarism_account = compared()
        scanned = _added(scanned, similar, plagiarism=plagiarism_account)
        with _writing(run_group.folder):
            write_json(run_group.folder / PAIRS, asdict(pairs))
            html = page(run_group.name, pairs, plagiarism_account)
            (run_group.folder / PAIRS_PAGE).write_text(html, encoding="utf-8")
        logger.info("%s", run_group.folder / PAIRS_PAGE)
    found = _with_earlier_judge(scanned, earlier)
    with _writing(run_group.folder):
        found.write(run_group.folder)
    if ask is not None:
        parts = pluralize(sum(len(case.chunks) for case in cases), "part")
        logger.info("the judge reads %s of %s", parts, pluralize(len(cases), "run"))
        opinions, judge_account = ask(cases)
        found = _added(scanned, opinions, judge=judge_account)
        with _writing(run_group.folder):
            found.write(run_group.folder)
    return found


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {unusable(error)}") from error


def _earlier(group: RunGroup) -> Findings:
    """Return the findings of an earlier audit; empty ones if there is none, or it cannot be read."""
    with suppress(OSError, ValueError):
        return read_findings(group.folder) or Findings(runs=())
    return Findings(runs=())


def _with_earlier_judge(found: Findings, earlier: Findings) -> Findings:
    """Keep the judge's findings of an earlier audit, because they have been paid for."""
    if earlier.judge is None:
        return found
    unread = {*earlier.judge.incomplete, *(set(found.runs) - set(earlier.runs))}
    account = replace(earlier.judge, incomplete=tuple(sorted(unread & set(found.runs))))
    return _added(found, _kept(earlier, found, SCANNER), judge=account)


def _kept(earlier: Findings, found: Findings, scanner: str) -> Iterator[Finding]:
    return (finding for finding in earlier.findings if finding.scanner == scanner and finding.run_id in found.runs)


def _added(found: Findings, more: Iterable[Finding], **account: Any) -> Findings:
    return replace(found, findings=(*found.findings, *more), **account)


def _comparison(bench: Bench, options: PlagiarismOptions, fingerprinter: Fingerprinter) -> Comparison:
    catalogue, store = bench.catalogue, bench.store

    def notebooks(id: str) -> Kernels | None:
        if id not in catalogue or not catalogue[id].kernels:
            return None
        return kernels(store.dataset(catalogue[id]))

    folders = {path.parent.name: path.parent for path in bench.registry.files}
    found = Comparison(
        fingerprinter,
        notebooks,
        lambda name: _code_below(folders[name]) if name in folders else (),
        [file for path in options.boilerplate for file in _code_below(path)],
    )
    for group in options.groups:
        for run in runs_of(group):
            found.add(run, group=group.name)
    return found


def _code_below(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    else:
        yield from sorted(file for file in regular_files(path) if file.suffix.lower() in LANGUAGES)
