"""``mlebench audit --plagiarism``: agents' code against public notebooks and against other agents' code."""

from __future__ import annotations

import argparse
import logging
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench.cli.common import open_group, user_path
from pytest_mlebench.errors import UsageError, reason
from pytest_mlebench.extras.audit.api import PlagiarismOptions
from pytest_mlebench.extras.audit.page import account_text, pairs_text
from pytest_mlebench.records.group import read_group

if TYPE_CHECKING:
    from pytest_mlebench.extras.audit.plagiarism import Pairs
    from pytest_mlebench.options import Settings
    from pytest_mlebench.results.findings import Findings, NotebooksRead

logger = logging.getLogger("pytest_mlebench")


def add_options(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("plagiarism")
    group.add_argument("--plagiarism", action="store_true",
        help="also compare the code of runs with public notebooks (which `mlebench kernels` downloads) and with the "
        "code of other agents on the same competition")  # fmt: skip
    group.add_argument("--with-group", metavar="GROUP", action="append", default=[],
        help="compare with the runs of this group, too; repeatable")  # fmt: skip
    group.add_argument("--boilerplate", metavar="PATH", type=user_path, action="append", default=[],
        help="code to disregard because agents were given it: a file or a folder; repeatable")  # fmt: skip
    group.add_argument("--pairs", action="store_true", help="print similar code side by side")


def chosen(options: argparse.Namespace, settings: Settings) -> PlagiarismOptions | None:
    """What the runs of an audit are compared with; None without ``--plagiarism``. Raises UsageError."""
    if not options.plagiarism:
        for name in ("with_group", "boilerplate", "pairs"):
            if getattr(options, name):
                raise UsageError(f"--{name.replace('_', '-')} needs --plagiarism")
        return None

    for path in options.boilerplate:
        try:
            path.stat()
        except OSError as error:
            raise UsageError(f"--boilerplate: {path} cannot be read: {reason(error)}") from error
    try:
        groups = [read_group(open_group(name, settings.runs_dir)) for name in options.with_group]
    except UsageError as error:
        raise UsageError(f"--with-group: {error}") from error
    return PlagiarismOptions(groups=groups, boilerplate=options.boilerplate)


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
    if found.plagiarism is not None:
        print(account_text(found.plagiarism))
    if options.pairs and pairs is not None and pairs.pairs:
        print(f"\n{pairs_text(pairs)}")
