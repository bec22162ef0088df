"""What a session collects where it is not told by paths: a split, a run group's runs, or the benchmark."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from pytest_mlebench.catalog import Competition
from pytest_mlebench.catalog.catalogue import unknown
from pytest_mlebench.catalog.schema import close_matches
from pytest_mlebench.plugin import internals, options
from pytest_mlebench.plugin.collection import marker_name, markers_of
from pytest_mlebench.plugin.session import (
    NAMES,
    Session,
    offered,
    replace_session,
    session_of,
    set_chosen_files,
    usage_errors,
)


def choose_paths(config: pytest.Config) -> None:
    """Choose what to collect; raises pytest.UsageError."""
    with usage_errors():
        session = session_of(config)
        if session.settings.split is not None:
            session = replace_session(config, chosen=tuple(session.bench.competitions()))
        _choose_paths(config, session)


def _choose_paths(config: pytest.Config, session: Session) -> None:
    """Without a path, collect bundled competitions, or the runs of the group that is resumed.

    An xdist worker is given the command line as the user wrote it, and finds the same items.
    """
    settings = session.settings
    if internals.has_paths(config) or not (settings.has_runs or settings.split):
        here = config.invocation_params.dir
        internals.set_paths(config, [_with_bundled(session, argument, here) for argument in config.args])
        return
    if paths := _resumed_paths(config, session):
        internals.set_paths(config, paths)
        return

    # `-k spaceship` needs no --split=dev.
    prefers_benchmark = settings.split is None and bool(config.option.keyword or config.option.markexpr)
    chosen: Iterable[Competition]
    chosen = session.bench.catalogue if prefers_benchmark else session.bench.competitions(settings.split or "all")
    files = [competition.folder / "competition.yaml" for competition in chosen]
    set_chosen_files(config, files, prefers_benchmark=prefers_benchmark)


def _resumed_paths(config: pytest.Config, session: Session) -> list[str]:
    """The runs of a group that is resumed; its competitions if the command line names other agents or seeds."""
    if session.settings.split:
        return []
    others = not {"--agent", "--seeds"}.isdisjoint(options.given(config))
    files = ((session.competition_file(run.nodeid), run.nodeid.partition("::")[2]) for run in session.resumed)
    return list(dict.fromkeys(str(file) if others else f"{file}::{name}" for file, name in files))


def _with_bundled(session: Session, argument: str, here: Path) -> str:
    """``competitions/ID/…`` names a competition of the catalogue where there is no such folder, as node ids do."""
    path, *names = argument.split("::")
    if not path.startswith(NAMES) or (here / path).exists():
        return argument

    found, (_, id, *rest) = session.bench.catalogue, Path(path).parts
    if id in found:
        return "::".join([str(found[id].folder.joinpath(*rest)), *names])
    if rest == ["competition.yaml"]:
        raise unknown("competition", id, found.ids)
    return argument


def list_markers(config: pytest.Config) -> None:
    """Have ``--markers`` list those of the catalogue, too: the splits and the categories."""
    for name, word in _markers(config).items():
        config.addinivalue_line("markers", f"{name}: competitions of {word}")


def _markers(config: pytest.Config) -> dict[str, str]:
    catalogue = session_of(config).bench.catalogue
    return {name: word for competition in catalogue for name, word in markers_of(competition).items()}


def explain_nothing(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Where -k or -m matches none of the competitions that were collected: the close ones, or how to see all."""
    expression = config.option.markexpr
    if expression and offered(config):
        known = _markers(config)
        words = [word for word in re.findall(r"\w+", expression) if word not in {"and", "or", "not", *known}]
        close = [name for word in words for name in close_matches(marker_name(word), known)]
        meant = f"did you mean {' or '.join(dict.fromkeys(close))}?" if close else "`pytest --markers` lists them"
        reporter.write_line(f"-m {expression!r} matches no competition; {meant}")
    word = config.option.keyword
    if not word or not (ids := offered(config)):
        return
    close = close_matches(word, ids)
    meant = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(sorted(ids)[:4])}, …"
    reporter.write_line(f"-k {word!r} matches nothing in {len(ids)} competitions; {meant} (`mlebench list` lists them)")
