"""``Bench``: the benchmark as one object, with the options of the command line.

>>> from pytest_mlebench import Bench
>>> with Bench(sandbox="local", runs_dir="more") as bench:
...     group = bench.run("dummy", "smoke-diabetes", group="bench")
>>> group.records[0].outcome.name
'no_medal'
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pytest_mlebench import factories
from pytest_mlebench import options as declared
from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.extensions import load_extension
from pytest_mlebench.io.paths import AnyPath
from pytest_mlebench.io.progress import Reporter, silent

if TYPE_CHECKING:
    from pytest_mlebench.agents import Agent, AgentRegistry
    from pytest_mlebench.catalog import Catalogue, Competition
    from pytest_mlebench.data.dataset import Dataset
    from pytest_mlebench.data.store import DataStore
    from pytest_mlebench.records.group import RunGroup
    from pytest_mlebench.records.report import Report
    from pytest_mlebench.results.overview import Overview
    from pytest_mlebench.runs.regrade import Regrading

_METHODS = "mlebench.methods"
"""The entry points of methods that extras add: functions whose first argument is the ``Bench``."""


class Bench:
    """The benchmark with its options; nothing is opened before it is used.

    Options have the names of the command line's, with underscores: ``Bench(sandbox="docker", max_cost=2)``. Values may
    be strings as on the command line, numbers or paths; a list for an option that can be repeated. What is not given
    comes from the environment variables that the command line reads as well; ini files are not read. ``reporter`` is
    called with progress and warnings.

    Agents are keyless, limited and recorded as in a pytest session. Methods of extras, such as ``audit`` and
    ``bundle``, are there while the extra is installed. Raises UsageError for an unknown option and for a wrong value.

    >>> Bench(max_cost="lots")
    Traceback (most recent call last):
    ...
    pytest_mlebench.errors.UsageError: max_cost: 'lots' is not a positive number
    """

    def __init__(
        self, *, reporter: Reporter = silent, settings: declared.Settings | None = None, **options: Any
    ) -> None:
        self.settings = settings or declared.from_python(options)
        self.reporter = reporter

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what was opened; the object can be used again afterwards."""
        self.__dict__.pop("sandboxes", None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        method = load_extension(_METHODS, name)
        if method is None:
            raise AttributeError(f"Bench has no attribute {name!r}")
        return method.__get__(self)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The bundled competitions, and those of ``competitions_dir``."""
        return factories.catalogue(self.settings)

    @cached_property
    def registry(self) -> AgentRegistry:
        """The bundled agents, and those of ``agents_dir``."""
        return factories.agent_registry(self.settings)

    @cached_property
    def store(self) -> DataStore:
        """The prepared data in ``data_dir``."""
        return factories.data_store(self.settings)

    @cached_property
    def sandboxes(self) -> factories.Sandboxes:
        """The sandboxes that agents run in."""
        return factories.Sandboxes(self.settings, self.reporter)

    def agents(self) -> list[Agent]:
        """All agents that can be run, variants included."""
        return list(self.registry.load().values())

    def competitions(self, split: str | None = None) -> list[Competition]:
        """The competitions of a split (default: that of the option ``split``, else all). Raises UsageError."""
        chosen = split or self.settings.split
        return self.catalogue.split(chosen) if chosen else list(self.catalogue)

    def prepare(self, *competitions: str | Competition, split: str | None = None) -> list[Dataset]:
        """Prepare the data of competitions, or of a split, where it is not there yet; raises DataError."""
        chosen = self._chosen(competitions, split)
        options = factories.prepare_options(self.settings)
        return [self.store.prepare(own, reporter=self.reporter, **options) for own in chosen]

    def run(
        self,
        agent: str | Agent,
        competition: str | Competition | list[str | Competition] | None = None,
        *,
        split: str | None = None,
        seeds: int | Iterable[int] = 1,
        group: AnyPath | None = None,
    ) -> RunGroup:
        """Run an agent on competitions, or on a split, and return the run group, which is complete on disk.

        ``seeds`` is how many, or which. ``group`` is a new group or one to go on with: runs that it has records of are
        not run again. What an agent does is an outcome in its record; so is an error of the harness, and the other runs
        go on. Raises UsageError, DataError or SandboxError where nothing could run, and what interrupts a run.
        """
        chosen_agent = self.registry[agent] if isinstance(agent, str) else agent
        given = (
            ()
            if competition is None
            else tuple(competition)
            if isinstance(competition, list | tuple)
            else (competition,)
        )
        chosen = self._chosen(given, split)
        numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
        if not numbers:
            raise UsageError("seeds: at least one is needed")
        from pytest_mlebench.session import run_all

        return run_all(
            self._group_folder(group),
            replace(self.settings, agents=(chosen_agent.id,), seeds=max(numbers) + 1),
            chosen_agent,
            chosen,
            seeds=numbers,
            sandboxes=self.sandboxes,
            prepare=lambda own: self.prepare(own)[0],
            reporter=self.reporter,
        )

    def grade(self, competition: str | Competition, submission: AnyPath) -> Report:
        """Grade a submission against the competition's prepared answers. Raises DataError where these are missing."""
        from pytest_mlebench.grading.grader import Grader
        from pytest_mlebench.io.paths import expanded

        (own,) = self._chosen((competition,), None)
        return Grader(own, self.store.dataset(own), **factories.grading_options(self.settings)).report(
            expanded(submission)
        )

    def regrade(self, group: AnyPath | RunGroup) -> Regrading:
        """Grade a run group's stored submissions again, with the version of the option ``bench_version`` or else the
        group's own. The records stay; the new grades are written beside them. Raises UsageError."""
        from pytest_mlebench.records.group import RunGroup
        from pytest_mlebench.runs.regrade import regrade, write_regrading

        own = group if isinstance(group, RunGroup) else self.group(group)
        version = self.settings.version if self.settings.bench_version is not None else own.version
        result = regrade(own, version, factories.regrader(self.settings, version))
        write_regrading(own.folder, result)
        return result

    def group(self, name: AnyPath) -> RunGroup:
        """A run group by its folder, its name below ``runs_dir``, a part of it, or ``last``. Raises UsageError."""
        from pytest_mlebench.records.group import find_group, read_group

        return read_group(find_group(name, self.settings.runs_dir))

    def report(self, *groups: AnyPath | RunGroup) -> Overview:
        """What run groups came to: rates, medals, costs and comparisons, as ``mlebench report`` shows them."""
        from pytest_mlebench.records.group import RunGroup
        from pytest_mlebench.results.overview import overview

        return overview([own if isinstance(own, RunGroup) else self.group(own) for own in groups])

    def _chosen(self, competitions: Iterable[str | Competition], split: str | None) -> list[Competition]:
        named = [self.catalogue[own] if isinstance(own, str) else own for own in competitions]
        if named and split:
            raise UsageError(f"name competitions or a split ({split}), not both")
        if not named and not (split or self.settings.split):
            raise UsageError("name a competition or a split")
        return named or self.competitions(split)

    def _group_folder(self, group: AnyPath | None) -> Path:
        name = group or self.settings.run_group or f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}-{secrets.token_hex(2)}"
        return (self.settings.runs_dir / name).absolute()
