"""Fixtures for competition items and for your own tests.

pytest imports this module at every start, so each fixture imports its dependencies itself.

Your tests select a competition and an agent with marks::

    import pytest

    pytestmark = [pytest.mark.competition("smoke-diabetes"), pytest.mark.agent("dummy")]


    def test_the_task(competition, agent):
        assert (competition.direction, agent.trusted) == ("lower", True)


    def test_the_data(dataset, data_store):
        assert (data_store.root / "smoke-diabetes" / "prepared" / "public") == dataset.public
        assert dataset.sample_submission.is_file()


    def test_a_run(run_agent, run_group, sandbox):
        record = run_agent(seed=1)
        assert record.report.valid_submission and record.sandbox.name == sandbox.name
        assert (run_group.folder / record.run_id / "submission" / "submission.csv").is_file()


    def test_a_submission(grade_submission, dataset):
        assert grade_submission(dataset.sample_submission).score > 70


    def test_the_grader(synthetic_grades, synthetic_dataset):
        assert synthetic_dataset.answers.is_file()
        assert synthetic_grades["missing_row.csv"].reason
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pytest_mlebench
from pytest_mlebench.io import files
from pytest_mlebench.plugin.session import FIXTURES, is_worker, or_fail, session_of

if TYPE_CHECKING:
    from pytest_mlebench.agents import Agent
    from pytest_mlebench.bench import Bench
    from pytest_mlebench.catalog import Competition
    from pytest_mlebench.data.dataset import Dataset
    from pytest_mlebench.data.store import DataStore
    from pytest_mlebench.gate.golden import Grade
    from pytest_mlebench.plugin.group import AgentRun
    from pytest_mlebench.records.group import GroupReader
    from pytest_mlebench.records.outcome import Report
    from pytest_mlebench.records.record import RunRecord
    from pytest_mlebench.sandbox import Sandbox

__all__ = FIXTURES
GRADES = pytest.StashKey["dict[str, dict[str, Grade]]"]()


def _bench(request: pytest.FixtureRequest) -> Bench:
    return session_of(request.config).bench


def _run(request: pytest.FixtureRequest) -> AgentRun | None:
    """Return the item if it runs an agent."""
    from pytest_mlebench.plugin.group import AgentRun

    return request.node if isinstance(request.node, AgentRun) else None


@pytest.fixture
def competition(request: pytest.FixtureRequest) -> Competition:
    """The Competition of the item, or of ``@pytest.mark.competition(ID)``."""
    from pytest_mlebench.plugin.collection import CompetitionItem

    if isinstance(request.node, CompetitionItem):
        return request.node.competition
    return or_fail(lambda: _bench(request).catalogue[_marked(request, "competition")])


@pytest.fixture(scope="session")
def data_store(request: pytest.FixtureRequest) -> DataStore:
    """The DataStore of ``--data-dir``, or the one of ``--data=twin``."""
    return or_fail(lambda: _bench(request).store)


@pytest.fixture
def dataset(request: pytest.FixtureRequest, competition: Competition, data_store: DataStore) -> Dataset:
    """The competition's Dataset, downloaded and prepared if necessary; ``--prepare=never`` skips the test."""
    from pytest_mlebench.plugin.group import provide

    store, run = data_store, _run(request)
    if run is not None and _bench(request).settings.twin_per_seed:
        store = _bench(request).store_of(run.key.seed)
    return or_fail(lambda: provide(request.node, competition, store, _bench(request)))


@pytest.fixture
def agent(request: pytest.FixtureRequest) -> Agent:
    """The Agent of the item, of ``@pytest.mark.agent(ID)``, or the first ``--agent``."""
    if (run := _run(request)) is not None:
        return run.agent
    if request.node.get_closest_marker("agent") is None and (agents := session_of(request.config).agents):
        return agents[0]
    return or_fail(lambda: _bench(request).registry[_marked(request, "agent")])


@pytest.fixture
def sandbox(request: pytest.FixtureRequest, agent: Agent) -> Sandbox:
    """The Sandbox selected by ``--sandbox``, ready to run the agent."""
    return or_fail(lambda: _bench(request).ready_sandbox(agent))


@pytest.fixture
def run_group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GroupReader:
    """The run group that runs are written to: ``folder``, ``records()``. In your own tests, a temporary one."""
    from pytest_mlebench.records.group import GroupReader

    reader = session_of(request.config).reader
    if _run(request) is not None and reader is not None:
        return reader
    return GroupReader(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def run_agent(
    request: pytest.FixtureRequest,
    agent: Agent,
    competition: Competition,
    dataset: Dataset,
    sandbox: Sandbox,
    run_group: GroupReader,
) -> Callable[..., RunRecord]:
    """A function that runs the agent on the competition and returns the RunRecord. ``seed=`` is optional."""
    from pytest_mlebench.plugin.reporting import note_run

    session, item = session_of(request.config), _run(request)
    options = session.bench.run_options(run_group.folder, worker=session.worker)
    default_seed = 0 if item is None else item.key.seed

    def run(*, seed: int = default_seed) -> RunRecord:
        record = pytest_mlebench.run_agent(agent, competition, dataset, sandbox, options, seed=seed)
        note_run(request.node, record, again=item is not None)
        return record

    return run


@pytest.fixture
def grade_submission(
    request: pytest.FixtureRequest, competition: Competition, dataset: Dataset
) -> Callable[[Path], Report]:
    """A function that grades a submission file against the competition's answers and returns the Report."""
    options = _bench(request).grading_options
    grader = or_fail(lambda: pytest_mlebench.Grader(competition, dataset, **options))
    return lambda path: grader.report(Path(path))


@pytest.fixture
def synthetic_dataset(
    request: pytest.FixtureRequest, competition: Competition, tmp_path_factory: pytest.TempPathFactory
) -> Dataset:
    """The competition's prepared synthetic data, shared by all workers."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if is_worker(request.config) else base  # each worker has its own subfolder
    store = pytest_mlebench.DataStore(shared / "mlebench-synthetic" / competition.version)
    return or_fail(lambda: store.prepare(competition, synthetic=competition.golden["seed"]))


@pytest.fixture
def synthetic_grades(
    request: pytest.FixtureRequest, competition: Competition, synthetic_dataset: Dataset
) -> dict[str, Grade]:
    """The grade of every synthetic submission, by name."""
    from pytest_mlebench.gate.golden import grade_all, synthetic_submissions

    known = request.config.stash.setdefault(GRADES, {})
    key = f"{competition.id}[{competition.version}]"
    if key not in known:

        def grade() -> dict[str, Grade]:
            with files.scratch() as folder:  # pytest cannot remove tmp_path after Ctrl-C in a fixture
                paths = synthetic_submissions(competition, synthetic_dataset, Path(folder), competition.golden["seed"])
                return {grade.name: grade for grade in grade_all(competition, synthetic_dataset, paths)}

        known[key] = or_fail(grade)
    return known[key]


def _marked(request: pytest.FixtureRequest, name: str) -> str:
    mark = request.node.get_closest_marker(name)
    if mark is None or not mark.args:
        pytest.fail(f"name the {name}: @pytest.mark.{name}(ID)", pytrace=False)
    return str(mark.args[0])
