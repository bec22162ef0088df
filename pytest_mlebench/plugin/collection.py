"""Collect competitions: for each one, the runs of agents on it or the checks of its preparer and grader.

Without paths, a session collects a split, the runs of a resumed group, or the benchmark.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from pytest_mlebench.catalog import Competition
from pytest_mlebench.catalog.catalogue import BENCHMARK, load, unknown
from pytest_mlebench.catalog.competition import FIRST, item_name
from pytest_mlebench.catalog.schema import close_matches
from pytest_mlebench.errors import CompetitionError, UsageError
from pytest_mlebench.io.files import bundled
from pytest_mlebench.io.units import listed
from pytest_mlebench.plugin import internals
from pytest_mlebench.plugin.checks import REAL_CHECKS, SYNTHETIC_CHECKS
from pytest_mlebench.plugin.session import (
    FIXTURES,
    FIXTURES_MODULE,
    NAMES,
    Session,
    chooses,
    given_options,
    offered,
    or_fail,
    session_of,
    usage_errors,
)

if TYPE_CHECKING:
    from pytest_mlebench.catalog import Catalogue


def start(config: pytest.Config) -> None:
    """Choose what to collect and register the hooks of this module; raises pytest.UsageError."""
    if config.option.markers:
        for name, word in _markers(config).items():
            config.addinivalue_line("markers", f"{name}: competitions of {word}")
    if chooses(config):
        with usage_errors():
            _choose_paths(config, session_of(config))
        config.pluginmanager.register(sys.modules[__name__], "mlebench-collection")


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return ChosenFolder.from_parent(parent, path=path) if path in session_of(parent.config).ways else None


@pytest.hookimpl(trylast=True)  # after -k and -m have selected items
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without ``--split``, -k and -m select from the benchmark, or from the other competitions if none matches."""
    selected = [item for item in items if isinstance(item, CompetitionItem) and item.competition.split in BENCHMARK]
    if selected and session_of(config).prefers_benchmark:
        kept = set(selected)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = selected


class ChosenFolder(pytest.Directory):
    """A parent folder of competitions that the session chose itself. Nothing else in it is collected."""

    def collect(self) -> Iterator[pytest.Collector]:
        for path in session_of(self.config).ways[self.path]:
            if path.is_dir():
                yield self.ihook.pytest_collect_directory(path=path, parent=self)
            else:
                yield from self.ihook.pytest_collect_file(file_path=path, parent=self)


class CompetitionFile(pytest.File):
    """A ``competition.yaml``. Collecting it only reads YAML; no code of the competition is imported."""

    competition: Competition

    @classmethod
    def of(cls, path: Path, parent: pytest.Collector) -> CompetitionFile | None:
        """Return the collector of a file; None if the file belongs to another tool.

        Bundled competitions, and those of the catalogue outside the rootdir, have node ids as in a checkout:
        ``competitions/ID/competition.yaml``.
        """
        config = parent.config
        is_bundled = path.parent.parent == bundled("competitions")
        in_catalogue = is_bundled or path.parent.parent in session_of(config).settings.competitions_dirs
        if not (in_catalogue or Competition.is_ours(path)):
            return None
        uses_real_path = path.is_relative_to(config.rootpath) and not is_bundled
        name = None if uses_real_path or not in_catalogue else f"competitions/{path.parent.name}/{path.name}"
        return cls.from_parent(parent, path=path, nodeid=name)

    def collect(self) -> Iterator[pytest.Item]:
        session = session_of(self.config)
        try:
            self.competition = load(self.path, session.settings.version)
            corrected = [load(self.path, version) for version in self.competition.versions[1:]]
        except CompetitionError as error:
            raise self.CollectError(str(error)) from error
        if session.chosen is not None and self.competition.id not in {chosen.id for chosen in session.chosen}:
            return
        for name, word in markers_of(self.competition).items():
            self.config.addinivalue_line("markers", f"{name}: competitions of {word}")
            self.add_marker(name)
        self.add_marker(pytest.mark.competition(self.competition.id))
        if session.runs_of is not None:
            yield from session.runs_of(self)
        else:
            real_data = session.settings.real_data
            both = session.settings.bench_version is None and not real_data
            for competition in (self.competition, *(corrected if both else ())):
                for name, check in (REAL_CHECKS if real_data else SYNTHETIC_CHECKS).items():
                    yield CompetitionItem.of_version(self, competition, name=name, callobj=check)


class CompetitionItem(pytest.Function):
    """A test function for one competition. Fixtures, marks and properties work as for any test."""

    competition: Competition

    @classmethod
    def of_version(
        cls, parent: CompetitionFile, competition: Competition, *, name: str, callobj: Callable[..., None], of: str = ""
    ) -> Self:
        """Create an item (see ``item_name``)."""
        item: Self = cls.from_parent(parent, name=item_name(name, of, competition.version), callobj=callobj)
        item.competition = competition
        internals.keep_fixtures(item, FIXTURES, FIXTURES_MODULE)
        if competition.version != FIRST:
            marker = f"bench_{competition.version}"
            parent.config.addinivalue_line("markers", f"{marker}: version {competition.version[1:]} of the benchmark")
            item.add_marker(marker)
        return item

    @property
    def id(self) -> Any:
        return internals.parsed_id(super().id)

    def runtest(self) -> None:
        or_fail(super().runtest)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.competition.id}::{self.name}"


def competition_of(item: pytest.Item, catalogue: Catalogue) -> Competition | None:
    """Return an item's competition: the one it was collected for, or that of its mark; None if unknown."""
    if isinstance(item, CompetitionItem):
        return item.competition
    mark = item.get_closest_marker("competition")
    with suppress(UsageError, IndexError):  # the competition fixture reports the error
        return catalogue[str(mark.args[0])] if mark else None
    return None


def markers_of(competition: Competition) -> dict[str, str]:
    """Return the markers of a competition's items, by name: its split and its category."""
    words = [competition.split, *(["lite"] if competition.split == "low" else []), competition.category]
    return {marker_name(word): word for word in words}


_TAKEN = frozenset("agent and competition filterwarnings not or parametrize skip skipif usefixtures xfail".split())
"""Words that mean something else to pytest, as a marker or in ``-m``."""


def marker_name(word: str) -> str:
    """Convert a split or category to a marker name, for example ``image_classification``.

    >>> marker_name("3D"), marker_name("Skip"), marker_name("???")
    ('category_3d', 'category_skip', 'category_')
    """
    cleaned = "".join(letter if letter.isalnum() else "_" for letter in word.lower().replace("->", " to "))
    name = "_".join(filter(None, cleaned.split("_")))
    return name if name.isidentifier() and name not in _TAKEN else f"category_{name}"


def _choose_paths(config: pytest.Config, session: Session) -> None:
    """Without a path, collect bundled competitions, or the runs of the resumed group.

    An xdist worker gets the user's original command line, and so collects the same items.
    """
    settings = session.settings
    if settings.split is not None:
        session.chosen = tuple(session.catalogue.split(settings.split))
    # A split in the ini file only selects among the competitions that pytest finds: a project has other tests, too.
    has_split = settings.split is not None and (settings.real_data or "--split" in given_options(config))
    if internals.has_paths(config) or not (settings.has_runs or has_split):
        here = config.invocation_params.dir
        internals.set_paths(config, [_with_bundled(session, argument, here) for argument in config.args])
        return
    if paths := _resumed_paths(config, session):
        internals.set_paths(config, paths)
        return

    # `-k spaceship` also works without --split=dev.
    session.prefers_benchmark = settings.split is None and bool(config.option.keyword or config.option.markexpr)
    chosen: Iterable[Competition]
    chosen = session.catalogue if session.prefers_benchmark else session.catalogue.split(settings.split or "all")
    files = [competition.folder / "competition.yaml" for competition in chosen]
    internals.set_paths(config, map(str, files))
    session.ways = _ways(files)


def _ways(files: Iterable[Path]) -> dict[Path, list[Path]]:
    """Map each parent folder of the files to its children that are to be collected: folders and files."""
    ways: dict[Path, dict[Path, None]] = {}
    for file in files:
        path = file
        while path not in ways.get(path.parent, ()) and path.parent != path:
            ways.setdefault(path.parent, {})[path] = None
            path = path.parent
    return {folder: list(steps) for folder, steps in ways.items()}


def _resumed_paths(config: pytest.Config, session: Session) -> list[str]:
    """Return the node ids of a resumed group; its competitions if the command line has other agents or seeds."""
    if session.settings.split:
        return []
    changed = not {"--agent", "--seeds"}.isdisjoint(given_options(config))
    files = ((session.competition_file(run.nodeid), run.nodeid.partition("::")[2]) for run in session.resumed)
    return list(dict.fromkeys(str(file) if changed else f"{file}::{name}" for file, name in files))


def _with_bundled(session: Session, argument: str, here: Path) -> str:
    """Resolve ``competitions/ID/…``, as in node ids, to a competition of the catalogue if the path does not exist."""
    path, *names = argument.split("::")
    parts = Path(path).parts
    if not path.startswith(NAMES) or len(parts) < 2 or (here / path).exists():
        return argument

    found, (_, id, *rest) = session.catalogue, parts
    if id in found:
        return "::".join([str(found[id].folder.joinpath(*rest)), *names])
    if rest == ["competition.yaml"]:
        raise unknown("competition", id, found.ids)
    return argument


def _markers(config: pytest.Config) -> dict[str, str]:
    """Return the markers of the catalogue's splits and categories."""
    catalogue = session_of(config).catalogue
    return {name: word for competition in catalogue for name, word in markers_of(competition).items()}


def explain_nothing(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """If -k or -m matches no competition, suggest similar names or how to list all."""
    expression = config.option.markexpr
    if expression:
        known = _markers(config)
        words = [word for word in re.findall(r"\w+", expression) if word not in {"and", "or", "not", *known}]
        if not offered(config) and known.keys().isdisjoint(map(marker_name, words)):
            return  # the expression is about another project's markers
        close = [name for word in words for name in close_matches(marker_name(word), known)]
        hint = f"did you mean {listed([*dict.fromkeys(close)], 'or')}?" if close else "`pytest --markers` lists them"
        reporter.write_line(f"-m {expression!r} matches no competition; {hint}")
    word = config.option.keyword
    if not word or not (ids := offered(config)):
        return
    close = close_matches(word, ids) or close_matches(word, {part for id in ids for part in id.split("-")})
    hint = f"did you mean {listed(close, 'or')}?" if close else f"for example: {', '.join(sorted(ids)[:4])}, …"
    reporter.write_line(f"-k {word!r} matches nothing in {len(ids)} competitions; {hint} (`mlebench list` lists them)")
