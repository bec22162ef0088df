"""Episodes as runs of a group: their trajectories, and the tools that read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench import Bench, UsageError, read_group
from pytest_mlebench.cli.main import main
from pytest_mlebench.extras.training.episode import Episode
from pytest_mlebench.extras.training.observation import Observation
from pytest_mlebench.extras.training.recording import Trajectory
from pytest_mlebench.extras.viewer.steps import conversations
from tests.llm.atif import problems

pytestmark = pytest.mark.full
COPY_SAMPLE = "cat $DATA_DIR/sample_submission.csv > $SUBMISSION_DIR/submission.csv"
REAL = "smoke-diabetes"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(sandbox="local", data_dir=tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def group(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A group of two concurrent episodes."""

    def policy(episode: Episode, observation: Observation) -> None:
        episode.write_file("note.txt", "a note")
        assert episode.read_file("note.txt") == b"a note"
        episode.step("echo hello; exit 3")
        episode.step(COPY_SAMPLE)

    folder = tmp_path_factory.mktemp("runs") / "episodes"
    played = list(bench.play(policy, [(REAL, 0), (REAL, 1)], group=folder, data="real"))
    assert [own.error for own in played] == [None, None]
    yield folder


def trajectories(group: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(group.glob("*/trajectory.json"))]


def test_concurrent_episodes_are_runs_of_one_group(group: Path) -> None:
    found = read_group(group)
    assert {record.seed for record in found.records} == {0, 1} == {key.seed for key in found.planned}
    assert all(record.score == 72.61873 and record.timeline[-1].final for record in found.records)
    assert (group / "report.html").is_file()


def test_a_recorded_episode_has_its_steps_as_a_trajectory(group: Path) -> None:
    for trajectory in trajectories(group):
        assert problems(trajectory) == []
        first, *steps = trajectory["steps"]
        assert first["source"] == "user" and "$SUBMISSION_DIR" in first["message"]
        calls = [step["tool_calls"][0] for step in steps]
        assert [call["function_name"] for call in calls] == ["write_file", "read_file", "bash", "bash"]
        assert calls[0]["arguments"] == {"path": "note.txt", "data": "a note"}
        assert calls[3]["arguments"] == {"command": COPY_SAMPLE}
        results = [step["observation"]["results"][0]["content"] for step in steps]
        assert results == ["", "a note", "hello\n", ""]
        assert steps[2]["extra"]["exit_code"] == 3 and steps[3]["extra"]["submission"] == "valid"
        assert steps[3]["extra"]["reward"] > steps[2]["extra"]["reward"] == 0


def test_the_trajectory_of_an_episode_is_bounded(tmp_path: Path) -> None:
    trajectory = Trajectory("toy", max_entries=30)
    trajectory.begin("x")
    for _ in range(15):
        trajectory.add("bash", {"command": "ls"}, "")
    trajectory.write(tmp_path)
    found = json.loads((tmp_path / "trajectory.json").read_text())
    assert problems(found) == [] and len(found["steps"]) == 10
    assert found["notes"] == "Left out: 6 calls at the end."


def test_export_viewer_and_command_show_the_trajectory(
    group: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(group), "--to=atif", "-o", str(tmp_path / "out")]) == 0
    exported = sorted((tmp_path / "out").iterdir())
    assert [json.loads(path.read_text())["steps"] for path in exported] == [own["steps"] for own in trajectories(group)]
    (run, _) = sorted(path.parent.name for path in group.glob("*/run.json"))
    capsys.readouterr()
    assert main(["trajectory", f"{group}/{run}"]) == 0
    assert "echo hello; exit 3" in capsys.readouterr().out
    (conversation,) = conversations(group, run, agent="agent")
    assert conversation.find("exit 3") and conversation.errors == []


def test_a_bundle_of_episodes_can_be_verified(group: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", str(group), "-o", str(tmp_path / "episodes.mleb")]) == 0
    assert main(["verify", str(tmp_path / "episodes.mleb")]) == 0
    assert "files are consistent and scores reproduce" in capsys.readouterr().out


def test_a_group_is_resumed_and_does_not_mix_options(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "episodes"
    for seed, competition in enumerate([REAL, "smoke-breast-cancer"]):
        with bench.episode(competition, data="real", group=folder) as episode:
            episode.reset(seed)
    assert [record.seed for record in read_group(folder).records] == [0, 1]
    with (
        bench.episode(REAL, data="real", group=folder, time_limit=7) as episode,
        pytest.raises(UsageError, match="was created with other settings"),
    ):
        episode.reset(2)
