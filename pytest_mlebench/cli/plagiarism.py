"""``mlebench audit --plagiarism``: agents' code against public notebooks and against other agents' code."""

from __future__ import annotations

import argparse
import logging
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench import factories
from pytest_mlebench.cli.common import user_path
from pytest_mlebench.errors import UsageError, reason, unusable

if TYPE_CHECKING:
    from pytest_mlebench.audit.findings import Findings, NotebooksRead
    from pytest_mlebench.audit.plagiarism import Comparison, Pairs
    from pytest_mlebench.audit.run import Run
    from pytest_mlebench.catalog import Catalogue
    from pytest_mlebench.data.kernels import Kernels
    from pytest_mlebench.data.store import DataStore
    from pytest_mlebench.runs.group import RunGroup
    from pytest_mlebench.settings import Settings

logger = logging.getLogger("pytest_mlebench")


def add_options(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("plagiarism")
    group.add_argument("--plagiarism", action="store_true",
        help="also compare the code of runs with public notebooks (which `mlebench kernels` downloads) and with the "
        "code of other agents on the same competition")  # fmt: skip
    group.add_argument("--with-group", metavar="GROUP", action="append", default=[],
        help="compare with the runs of this group, too; repeatable")  # fmt: skip
    group.add_argument("--boilerplate", metavar="PATH", type=user_path, action="append", default=[],
        help="code that agents were given, which is disregarded: a file, or a folder; repeatable")  # fmt: skip
    group.add_argument("--pairs", action="store_true", help="print what resembles each other side by side")


def comparison(
    options: argparse.Namespace, settings: Settings, catalogue: Catalogue, store: DataStore
) -> Comparison | None:
    """What compares the runs of an audit; None without ``--plagiarism``. Raises UsageError."""
    if not options.plagiarism:
        for name in ("with_group", "boilerplate", "pairs"):
            if getattr(options, name):
                raise UsageError(f"--{name.replace('_', '-')} needs --plagiarism")
        return None
    from pytest_mlebench.audit.fingerprints import default_parameters
    from pytest_mlebench.audit.plagiarism import Comparison
    from pytest_mlebench.audit.run import runs_of
    from pytest_mlebench.data.kernels import kernels
    from pytest_mlebench.runs.group import find_group, read_group

    for path in options.boilerplate:
        try:
            path.stat()
        except OSError as error:
            raise UsageError(f"--boilerplate: {path} cannot be read: {reason(error)}") from error
    try:
        others = [read_group(find_group(name, settings.runs_dir)) for name in options.with_group]
    except UsageError as error:
        raise UsageError(f"--with-group: {error}") from error

    def notebooks(id: str) -> Kernels | None:
        if id not in catalogue or not catalogue[id].kernels:
            return None
        return kernels(store.dataset(catalogue[id]))

    folders = {path.parent.name: path.parent for path in factories.agent_registry(settings).files}
    found = Comparison(
        default_parameters(),
        notebooks,
        lambda name: _code_below(folders[name]) if name in folders else (),
        [file for path in options.boilerplate for file in _code_below(path)],
    )
    try:
        for group in others:
            for run in runs_of(group, lambda id: None, lambda id: None):
                found.add(run, group=group.name)
    except BaseException:
        found.__exit__()
        raise
    return found


def _code_below(path: Path) -> Iterator[Path]:
    from pytest_mlebench.audit.fingerprints import LANGUAGES
    from pytest_mlebench.audit.programs import regular_files

    if path.is_file():
        yield path
    else:
        yield from sorted(file for file in regular_files(path) if file.suffix.lower() in LANGUAGES)


def collecting(runs: Iterable[Run], compared: Comparison) -> Iterator[Run]:
    """The runs; each is taken up for the comparison while its files are in memory."""
    for run in runs:
        compared.add(run)
        yield run


def with_pairs(found: Findings, compared: Comparison, group: RunGroup) -> tuple[Findings, Pairs]:
    """The findings with those of plagiarism; pairs are written to the group's folder. Raises UsageError."""
    from pytest_mlebench.audit.findings import PAIRS_PAGE
    from pytest_mlebench.reports.plagiarism import page

    own, pairs, account = compared()
    path = group.folder / PAIRS_PAGE
    try:
        pairs.write(group.folder)
        path.write_text(page(group.name, pairs, account), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{group.folder} cannot be written: {unusable(error)}") from error
    logger.info("%s", path)
    return replace(found, findings=(*found.findings, *own), plagiarism=account), pairs


def with_earlier(found: Findings, earlier: Findings | None) -> Findings:
    """An audit without ``--plagiarism`` keeps what one found before."""
    from pytest_mlebench.audit.plagiarism import SCANNER

    if earlier is None or earlier.plagiarism is None:
        return found
    kept = [own for own in earlier.findings if own.scanner == SCANNER and own.run_id in found.runs]
    return replace(found, findings=(*found.findings, *kept), plagiarism=earlier.plagiarism)


def warn_of_missing(notebooks: Mapping[str, NotebooksRead], data_dir: Path, *, is_default: bool) -> None:
    """One line where notebooks have yet to be downloaded, with the command that does it."""
    missing = {id: own for id, own in notebooks.items() if own.missing}
    if missing:
        chosen = " ".join(f"-c {id}" for id in missing)
        place = "" if is_default else f" --data-dir {shlex.quote(str(data_dir))}"
        counts = ", ".join(f"{id} ({own.missing} of {own.listed})" for id, own in missing.items())
        logger.warning(
            "warning: notebooks are not downloaded: %s; `mlebench kernels %s%s` does it", counts, chosen, place
        )
    if unlisted := [id for id, own in notebooks.items() if not own.listed]:
        logger.warning("no public notebooks are known of %s", ", ".join(unlisted))


def show(found: Findings, pairs: Pairs | None, options: Any) -> None:
    """What was compared, and with ``--pairs`` the passages side by side."""
    from pytest_mlebench.reports.plagiarism import account_text, pairs_text

    if found.plagiarism is not None:
        print(account_text(found.plagiarism))
    if options.pairs and pairs is not None and pairs.pairs:
        print(f"\n{pairs_text(pairs)}")
