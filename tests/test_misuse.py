"""Invalid calls of the Python interface raise an error immediately, which names the argument."""

from __future__ import annotations

import io
import math
import multiprocessing
import os
import pydoc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import pytest_mlebench
from pytest_mlebench import (
    AgentRegistry,
    Catalogue,
    Competition,
    DataError,
    DataStore,
    DockerSandbox,
    GradingLimits,
    Leaderboard,
    Limits,
    LocalSandbox,
    RunOptions,
    SandboxError,
    UsageError,
    default_agents,
    default_catalogue,
    find_group,
    grade,
    medal_ranks,
    read_group,
    run_agent,
)

DIGITS = "smoke-digits"
any_: Callable[[object], Any] = lambda value: cast("Any", value)  # noqa: E731


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def run(**changes: object) -> object:
    competition = default_catalogue()[DIGITS]
    arguments: dict[str, Any] = {
        "agent": default_agents()["dummy"],
        "competition": competition,
        "dataset": DataStore("data").dataset(competition),
        "sandbox": LocalSandbox(),
        "options": RunOptions(folder=Path("group")),
    }
    return run_agent(**{**arguments, **changes})


WRONG: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "a competition's id is a number": (lambda: default_catalogue()[any_(5)], TypeError, "a competition's id must be"),
    "an agent's id is None": (lambda: default_agents()[any_(None)], TypeError, "an agent's id must be of type str"),
    "an unknown version": (lambda: default_catalogue(version="v9"), UsageError, "'v9' of the benchmark must be one of"),
    "a version as a number": (lambda: Catalogue(version=any_(2)), UsageError, "version 2 of the benchmark must be"),
    "a competition as text, prepared": (lambda: DataStore().prepare(any_(DIGITS)), TypeError, "default_catalogue()"),
    "a competition as text, graded": (lambda: grade("a.csv", any_(DIGITS), any_(None)), TypeError, "the competition"),
    "no dataset": (lambda: grade("a", default_catalogue()[DIGITS], any_(None)), TypeError, "DataStore().prepare"),
    "an option that prepare lacks": (
        lambda: DataStore().prepare(default_catalogue()[DIGITS], **any_({"verbose": 1})),
        TypeError,
        "prepare has no option verbose; it has raw_dir",
    ),
    "an unknown description": (
        lambda: DataStore().prepare(default_catalogue()[DIGITS], description=any_("mine")),
        UsageError,
        "description 'mine' must be one of bundled, kaggle",
    ),
    "an agent as text": (lambda: run(agent="dummy"), TypeError, "default_agents()['baseline'] is one"),
    "a sandbox as text": (lambda: run(sandbox="local"), TypeError, "LocalSandbox() is one"),
    "a sandbox's class": (lambda: run(sandbox=LocalSandbox), TypeError, "LocalSandbox() is one"),
    "options as text": (lambda: run(options="group"), TypeError, "RunOptions(folder="),
    "a very negative seed": (lambda: run(seed=-(10**5000)), UsageError, "least 0, not a number of thousands of digits"),
    "a large seed": (lambda: run(seed=10**5000), UsageError, "the seed must be less than 2^63"),
    "a huge limit": (
        lambda: GradingLimits(memory=10**5000),
        UsageError,
        "not a number of thousands of digits",
    ),
    "a negative seed": (lambda: run(seed=-1), UsageError, "the seed must be an integer of at least 0, not -1"),
    "a seed that no database can store": (lambda: run(seed=1 << 63), UsageError, "the seed must be less than 2^63"),
    "a seed as text": (lambda: run(seed="1"), UsageError, "not '1'"),
    "a time limit as text": (
        lambda: Limits(time_limit=any_("24h")),
        TypeError,
        "time_limit must be a number, not '24h'",
    ),
    "no time limit": (lambda: Limits(time_limit=any_(None)), TypeError, "time_limit must be a number, not None"),
    "no time to grade": (lambda: GradingLimits(seconds=0), UsageError, "seconds must be a number above 0"),
    "an unknown end": (
        lambda: RunOptions(folder=Path("a"), until="now"),
        UsageError,
        "until must be one of done, limit",
    ),
    "limits as a dictionary": (lambda: RunOptions(folder=Path("a"), limits=any_({})), TypeError, "limits must be"),
    "an unknown network": (lambda: LocalSandbox(network="lan"), SandboxError, "network policy 'lan' must be one of"),
    "no workers": (lambda: LocalSandbox(workers=0), UsageError, "workers must be a number of at least 1, not 0"),
    "an unknown engine": (lambda: DockerSandbox(engine="lxc"), SandboxError, "engine 'lxc' must be docker or podman"),
    "one host as text": (lambda: DockerSandbox(allow_hosts="a.org"), TypeError, "['a.org']"),
    "heavy for another machine": (lambda: DockerSandbox(heavy="tpu"), SandboxError, "heavy must be cpu, cuda or None"),
    "a group without a name": (lambda: find_group("", "reports"), UsageError, "the name of the run group is empty"),
    "a group of an unknown user": (lambda: read_group("~nobody-of-this-name/a"), UsageError, "there is no home folder"),
    "a folder of an unknown user": (
        lambda: RunOptions(folder=Path("~nobody-of-this-name/a")),
        UsageError,
        "there is no home folder ~nobody-of-this-name",
    ),
    "a team without a score": (
        lambda: Leaderboard.from_scores([0.5, math.nan], lower_is_better=True),
        ValueError,
        "a team's score must be a finite number, not nan",
    ),
    "half a team": (lambda: medal_ranks(any_(1.5)), TypeError, "integer"),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_error_for_an_invalid_argument_is_immediate_and_names_it(case: str, elsewhere: Path) -> None:
    call, kind, words = WRONG[case]
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value)
    assert not list(elsewhere.iterdir())  # nothing was created


@pytest.mark.parametrize(
    "call",
    [Catalogue, AgentRegistry, default_catalogue, default_agents, Competition.load, DataStore, read_group],
    ids=lambda call: call.__qualname__,
)
@pytest.mark.parametrize("path", [5, b"folder"])
def test_a_path_of_another_type_is_a_type_error(call: Callable[..., object], path: object) -> None:
    with pytest.raises(TypeError, match=r"expected str|should be a str"):
        call(path)


def test_paths_can_be_strings(elsewhere: Path) -> None:
    competition = default_catalogue()[DIGITS]
    assert Competition.load(str(competition.folder)).id == DIGITS
    assert len(Catalogue(str(competition.folder.parent))) > 80
    assert AgentRegistry(str(default_agents()["dummy"].folder.parent))["dummy"].trusted
    dataset = DataStore("data").prepare(competition)
    assert grade(str(dataset.sample_submission), competition, dataset).score is not None
    record = run_agent(
        default_agents()["dummy"], competition, dataset, LocalSandbox(), RunOptions(folder=cast("Path", "group"))
    )
    assert read_group("group").records[0].run_id == record.run_id
    assert find_group("group", "reports") == Path("group")


def test_a_tilde_means_the_home_folder(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(elsewhere / "home"))
    dataset = DataStore("~/data").prepare(default_catalogue()[DIGITS])
    assert dataset.answers.is_relative_to(elsewhere / "home" / "data") and not Path("~").exists()


def test_data_of_another_competition_is_not_reported_as_a_grader_error() -> None:
    dataset = DataStore("data").prepare(default_catalogue()[DIGITS])
    with pytest.raises(DataError, match="the dataset is for smoke-digits, not for smoke-diabetes"):
        grade(dataset.sample_submission, default_catalogue()["smoke-diabetes"], dataset)
    report = grade(dataset.public, default_catalogue()[DIGITS], dataset)
    assert report.error == f"{dataset.public} is a folder, not a file" and not report.submission_exists


def test_a_run_that_cannot_start_leaves_no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(DataError):
        run()
    with pytest.raises(pytest_mlebench.AgentError, match="OPENAI_API_KEY"):
        run(agent=default_agents()["react"], dataset=DataStore("data").prepare(default_catalogue()[DIGITS]))
    assert not Path("group").exists()


def test_help_shows_no_value_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameter defaults appear in ``help``, in notebooks and in documentation generated from signatures."""
    for name in pytest_mlebench.__all__:
        shown, value = io.StringIO(), getattr(pytest_mlebench, name)
        if isinstance(value, str):  # `help` would look it up as a topic
            continue
        pydoc.Helper(output=shown).help(value)
        assert os.environ["PATH"] not in shown.getvalue(), name


def test_a_leaderboard_converts_numpy_numbers() -> None:
    board = Leaderboard.from_scores(np.array([1, 2, 3]), lower_is_better=False)
    assert type(board.gold) is float and type(board.median) is float


def test_objects_have_a_readable_repr() -> None:
    assert repr(default_catalogue(version="v2")).startswith("<Catalogue v2: ")
    assert repr(default_agents()).startswith("<AgentRegistry of ")
    assert repr(DataStore("data")) == "DataStore('data')"


def score_of(path: Path) -> float | None:
    competition = default_catalogue()[DIGITS]
    return grade(path, competition, DataStore("data").dataset(competition)).score


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_processes_use_separate_grading_processes() -> None:
    """If they shared a grading process, one could receive the reply to the other's submission."""
    dataset = DataStore("data").prepare(default_catalogue()[DIGITS])
    paths = [dataset.sample_submission, dataset.answers] * 2
    expected = [score_of(path) for path in paths[:2]] * 2  # starts this process's grading process
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(score_of, paths, chunksize=1).get(timeout=120) == expected
    assert expected[1] == 1.0 and score_of(paths[0]) == expected[0]
