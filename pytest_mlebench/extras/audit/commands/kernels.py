"""``mlebench kernels``: downloads the public notebooks that agents' code is compared with."""

from __future__ import annotations

import argparse
import logging
from typing import Any

from pytest_mlebench.cli.common import add_options, add_selection, print_json, read_bench, selected, warn_if_missing
from pytest_mlebench.data.download.kaggle import KaggleDownloads
from pytest_mlebench.data.download.transfers import CredentialsError
from pytest_mlebench.errors import DataError
from pytest_mlebench.extras.audit.kernels import Kernels, download
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.reports.progress import shown

logger = logging.getLogger("pytest_mlebench")


def add(commands: Any) -> None:
    command = commands.add_parser("kernels", help="download competitions' public notebooks, to audit runs",
        description="Download the public notebooks with the most votes of each competition. They are stored next to "
        "its data, where agents cannot see them. To resume an interrupted download, run the same command again."
        )  # fmt: skip
    add_selection(command, required=True)
    add_options(command, "--data-dir")
    command.add_argument("--json", action="store_true", help="print the result as JSON")
    command.set_defaults(command=_kernels)


def _kernels(options: argparse.Namespace) -> int:
    bench = read_bench(options)
    chosen, store = selected(options, bench.catalogue), bench.store
    store.check()
    source = KaggleDownloads()
    if any(competition.kernels for competition in chosen):
        source.credentials()
    else:
        warn_if_missing(store)
    found: dict[str, dict[str, Any]] = {}
    failed = False
    with shown(len(chosen)) as reporter:
        for competition in chosen:
            if not competition.kernels:
                found[competition.id] = {"listed": 0}
                reporter.end(competition.id, f"{competition.id}: no public notebooks are known")
                continue
            try:
                here = download(store, competition, source, reporter)
            except CredentialsError:
                raise
            except DataError as error:
                failed = True
                found[competition.id] = {"error": str(error)}
                reporter.end(competition.id, str(error))
                continue
            failed = failed or bool(here.missing)
            found[competition.id] = {
                "listed": len(here.listed),
                "files": {name: str(path) for name, path in here.files.items()},
                "gone": here.gone,
                "failed": here.failed,
                "missing": here.missing,
            }
            reporter.end(competition.id, _ended(competition.id, here, str(store.dataset(competition).kernels)))
    if options.json:
        print_json(found)
    return 1 if failed else 0


def _ended(id: str, here: Kernels, folder: str) -> str:
    text = f"{id}: {len(here.files)} of {pluralize(len(here.listed), 'notebook')} in {folder}"
    if here.gone:
        text += f"; {len(here.gone)} gone or private: {', '.join(here.gone)}"
    if here.missing:
        why = next(iter(here.failed.values()), "")
        text += f"; {len(here.missing)} missing, run the same command again to retry: {why}"
    return text
