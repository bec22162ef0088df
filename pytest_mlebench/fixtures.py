"""Fixtures for competition items, and for anyone's own tests.

What imports pandas, scikit-learn or docker is imported in the fixtures: collecting needs none of it.

A test of your own names its competition, and its agent, with marks::

    @pytest.mark.competition("smoke-digits")
    @pytest.mark.agent("baseline")
    def test_the_baseline_earns_a_medal(run_agent):
        assert run_agent().report.any_medal
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from pytest_mlebench.agents import Agent
from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.datasets import provide
from pytest_mlebench.errors import MLEBenchError
from pytest_mlebench.grading.report import Report
from pytest_mlebench.items import AgentRun, item_of, settings_of, teller
from pytest_mlebench.outcomes import properties
from pytest_mlebench.results.record import RunRecord
from pytest_mlebench.runs import RunGroup
from pytest_mlebench.runs import run_agent as run
from pytest_mlebench.sandbox import Sandbox

if TYPE_CHECKING:
    from pytest_mlebench.grading.golden import Grade

Result = TypeVar("Result")
GRADES = pytest.StashKey["dict[str, dict[str, Grade]]"]()


def _or_fail(act: Callable[[], Result]) -> Result:
    """A user's mistake, or trouble with data or Docker, is told in words and not as a traceback."""
    try:
        return act()
    except MLEBenchError as error:
        message = str(error)
    pytest.fail(message, pytrace=False)  # outside of the handler: pytest would show both


@pytest.fixture
def competition(request: pytest.FixtureRequest) -> Competition:
    """The Competition of the item, or of ``@pytest.mark.competition(ID)``."""
    if item := item_of(request):
        return item.competition
    return _or_fail(lambda: default_catalogue()[_marked(request, "competition")])


@pytest.fixture(scope="session")
def data_store(request: pytest.FixtureRequest) -> DataStore:
    """The DataStore at ``--data-dir``."""
    return DataStore(settings_of(request.config).data_dir)


@pytest.fixture
def dataset(request: pytest.FixtureRequest, competition: Competition, data_store: DataStore) -> Dataset:
    """The competition's Dataset, downloaded and prepared if it is not there; ``--prepare=never`` skips the test."""
    settings = settings_of(request.config)
    return _or_fail(lambda: provide(competition, data_store, settings, teller(request.config)))


@pytest.fixture
def agent(request: pytest.FixtureRequest) -> Agent:
    """The Agent of the item, of ``@pytest.mark.agent(ID)``, or the first ``--agent``."""
    settings = settings_of(request.config)
    if isinstance(request.node, AgentRun):
        assert request.node.agent is not None
        return request.node.agent
    if request.node.get_closest_marker("agent") is None and settings.has_runs:
        return settings.agents[0]
    return _or_fail(lambda: settings.registry[_marked(request, "agent")])


@pytest.fixture
def sandbox(request: pytest.FixtureRequest, agent: Agent) -> Sandbox:
    """The Sandbox that ``--sandbox`` gives the agent, ready to run it."""

    def ready() -> Sandbox:
        chosen = settings_of(request.config).choose_sandbox(agent, teller(request.config))
        chosen.check(agent)
        chosen.prepare(agent)
        return chosen

    return _or_fail(ready)


@pytest.fixture
def run_group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunGroup:
    """The RunGroup of the session, with its limits; a test of your own gets a folder of its own."""
    group = settings_of(request.config).run_group
    if isinstance(request.node, AgentRun):
        return group
    return replace(group, folder=tmp_path_factory.mktemp("runs"))


@pytest.fixture
def run_agent(
    request: pytest.FixtureRequest,
    agent: Agent,
    competition: Competition,
    dataset: Dataset,
    sandbox: Sandbox,
    run_group: RunGroup,
) -> Callable[..., RunRecord]:
    """A function that runs the agent on the competition and returns the RunRecord; ``seed=`` as an option."""
    item = item_of(request)

    def run_it(*, seed: int = item.seed if item else 0) -> RunRecord:
        record = run(agent, competition, dataset, sandbox, run_group, seed=seed)
        # Not by record_property, which warns of JUnit's default family though the properties arrive.
        request.node.user_properties.extend(properties(record))
        return record

    return run_it


@pytest.fixture
def grade_submission(competition: Competition, dataset: Dataset) -> Callable[[Path], Report]:
    """A function that grades a submission's file against the competition's answers and returns the Report."""
    from pytest_mlebench.grading.grader import Grader

    grader = _or_fail(lambda: Grader(competition, dataset))
    return lambda path: grader.report(Path(path))


@pytest.fixture
def synthetic_dataset(competition: Competition, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The competition's synthetic data, prepared (once for all workers)."""
    from pytest_mlebench.grading.golden import prepare_synthetic

    # Workers have folders of their own below the session's.
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    store = DataStore(shared / "mlebench-synthetic")
    return _or_fail(lambda: prepare_synthetic(competition, store, competition.golden["seed"]))


@pytest.fixture
def synthetic_grades(
    request: pytest.FixtureRequest, competition: Competition, synthetic_dataset: Dataset, tmp_path: Path
) -> dict[str, Grade]:
    """How every synthetic submission is graded, by name."""
    from pytest_mlebench.grading.golden import grade_all, synthetic_submissions

    known = request.config.stash.setdefault(GRADES, {})
    if competition.id not in known:

        def grade() -> dict[str, Grade]:
            paths = synthetic_submissions(competition, synthetic_dataset, tmp_path, competition.golden["seed"])
            return {grade.name: grade for grade in grade_all(competition, synthetic_dataset, paths)}

        known[competition.id] = _or_fail(grade)
    return known[competition.id]


def _marked(request: pytest.FixtureRequest, name: str) -> str:
    mark = request.node.get_closest_marker(name)
    if mark is None or not mark.args:
        pytest.fail(f"say which {name}: @pytest.mark.{name}(ID)", pytrace=False)
    return str(mark.args[0])
