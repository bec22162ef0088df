"""``mlebench familiarity``: shows whether scores are higher on competitions whose texts a base model knows."""

from __future__ import annotations

import argparse
import logging
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pytest_mlebench.catalog import Competition
from pytest_mlebench.cli.common import (
    GROUP_HELP,
    add_options,
    print_json,
    read_bench,
    user_path,
    warn_if_missing,
    write_output,
)
from pytest_mlebench.data.preparing import read_description
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.audit import familiarity
from pytest_mlebench.extras.audit.completions import CHARACTERS, TOP, CompletionsServer
from pytest_mlebench.io.units import one_line
from pytest_mlebench.io.values import write_json
from pytest_mlebench.llm.api import VISIBLE
from pytest_mlebench.reports.progress import Lines
from pytest_mlebench.reports.tables import Table, terminal_width
from pytest_mlebench.results import find_group, read_group
from pytest_mlebench.results.findings import Correlation, Knowledge, in_words

logger = logging.getLogger("pytest_mlebench")


def add(commands: Any) -> None:
    command = commands.add_parser("familiarity", help="compare scores with a model's knowledge of the competitions",
        description="Correlate a run group's scores with the mean probability that a base model gives to the true "
        "tokens of the competitions' texts. Writes familiarity-MODEL.json and .svg into the group. The server's "
        "answers are cached in the data folder.")  # fmt: skip
    command.add_argument("group", metavar="GROUP", help=GROUP_HELP)
    command.add_argument("--model", metavar="NAME", required=True, help="the name of the base model on the server")
    command.add_argument("--base-url", metavar="URL", required=True,
        help="a server with the completions API, for example http://localhost:8000/v1; it must support `echo` with "
        "`logprobs`, or `prompt_logprobs`")  # fmt: skip
    command.add_argument("--key", metavar="NAME", help="the environment variable that holds the server's key, if any")
    command.add_argument("--texts", type=user_path, metavar="DIR",
        help="the competitions' pages and discussions: DIR/ID.md, or .md and .txt files in DIR/ID (default: the "
        "description of the prepared data, or else the bundled one)")  # fmt: skip
    command.add_argument("--json", action="store_true", help="print the result as JSON")
    add_options(command, "--runs-dir", "--competitions-dir", "--data-dir")
    command.set_defaults(command=_familiarity)


def _familiarity(options: argparse.Namespace) -> int:
    bench = read_bench(options)
    if not _is_url(options.base_url):
        raise UsageError(f"--base-url: {options.base_url} is not a URL; an example: http://localhost:8000/v1")
    key = "" if options.key is None else os.environ.get(options.key, "")
    if options.key is not None and not key:
        raise UsageError(f"--key: the environment variable {options.key} is not set")
    if key and not VISIBLE.fullmatch(key):
        raise UsageError(f"--key: ${options.key} has a space, a line break or a non-ASCII character, which no key has")
    group = read_group(find_group(options.group, bench.settings.runs_dir))
    catalogue = bench.with_settings(bench_version=group.version.removeprefix("v")).catalogue
    here = {id: catalogue[id] for id in {record.competition_id for record in group.records} if id in catalogue}
    found, left_out = familiarity.scores(group.records, here.get)
    scored = sorted({id for by_id in found.values() for id in by_id})
    store = bench.store
    warn_if_missing(store)
    texts, ours = _texts(options.texts, [catalogue[id] for id in scored], store)
    left_out |= {id: f"no text in {options.texts}" for id in scored if id not in texts}
    if len(texts) < familiarity.FEWEST:
        raise UsageError(
            f"{group.name}: a correlation needs at least {familiarity.FEWEST} competitions with a score and a text; "
            f"there are {len(texts)}"
        )
    server = CompletionsServer(options.base_url, options.model, key)
    knowledge = familiarity.measure(texts, server, found, store.root / ".familiarity", Lines())
    correlations = [one for agent in found if (one := familiarity.correlation(agent, knowledge)) is not None]
    result = {
        "run_group": group.name,
        "model": options.model,
        "base_url": options.base_url,
        "own_texts": options.texts is None,
        "own_descriptions": ours,
        "positions": familiarity.POSITIONS,
        "top": TOP,
        "characters": CHARACTERS,
        "correlations": [asdict(one) for one in correlations],
        "competitions": [asdict(known) for known in knowledge],
        "left_out": left_out,
    }
    name = re.sub(r"[^A-Za-z0-9.]+", "-", options.model).strip("-.")[:80] or "model"
    try:
        write_json(group.folder / f"familiarity-{name}.json", result)
    except OSError as error:
        raise UsageError(f"{group.folder} cannot be written: {error.strerror}") from error
    picture = familiarity.familiarity_plot(options.model, knowledge, found.keys(), correlations).file()
    if options.json:
        print_json(result)
    else:
        _show(knowledge, found.keys(), correlations, left_out)
    write_output(picture, group.folder / f"familiarity-{name}.svg")
    return 0


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        return is_http and VISIBLE.fullmatch(text) is not None
    except ValueError:  # an invalid port, or brackets
        return False


def _texts(
    folder: Path | None, competitions: Sequence[Competition], store: DataStore
) -> tuple[Mapping[str, Mapping[str, str]], int]:
    """Return each competition's texts (by default, its description), and how many are our own descriptions."""
    if folder is not None:
        if not folder.is_dir():
            raise UsageError(f"--texts: {folder} is not a folder")
        return familiarity.texts_of([competition.id for competition in competitions], folder), 0
    found, ours = {}, 0
    for competition in competitions:
        dataset = store.dataset(competition)
        prepared = dataset.public / "description.md"
        is_original = dataset.description in ("kaggle", "other") and prepared.is_file()
        ours += not is_original
        text = prepared.read_text(encoding="utf-8", errors="replace") if is_original else read_description(competition)
        found[competition.id] = {"description.md": text}
    if ours:
        logger.warning(
            "warning: %d of %d competitions have only our own description, which is not the text that models were "
            "trained on; name the original texts with --texts, or prepare with --description=kaggle",
            ours,
            len(competitions),
        )
    return found, ours


def _show(
    knowledge: Sequence[Knowledge],
    agents: Collection[str],
    correlations: Sequence[Correlation],
    left_out: Mapping[str, str],
) -> None:
    heads = ("competition", "familiarity", "positions", *map(one_line, agents))
    rows = [
        (
            known.competition_id,
            f"{known.familiarity:.3f}",
            str(sum(text.positions for text in known.texts.values())),
            *(f"{known.scores[agent]:.2f}" if agent in known.scores else "-" for agent in agents),
        )
        for known in sorted(knowledge, key=lambda known: -known.familiarity)
    ]
    print(Table(heads, rows, frozenset(heads[1:]), ("positions",)).text(terminal_width()) + "\n")
    for id, why in left_out.items():
        print(f"left out: {id}: {why}")
    summaries = {one.agent: in_words(one) for one in correlations}
    for agent in agents:
        words = summaries.get(agent, "no correlation: too few competitions with both, or all scores are equal")
        print(one_line(f"{agent}: {words}"))
