"""The attacks on sandboxes as commands of episodes, and attacks on the inputs of rewards.

The imported tests run here again, with an ``attack`` fixture that is a step of an episode.
"""
# ruff: noqa: F401

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench import Bench, Competition
from pytest_mlebench.extras.training.episode import agent_of_episodes, bench_of_episodes
from pytest_mlebench.sandbox import Ending, Execution
from tests.sandbox.conftest import require_docker
from tests.sandbox.hostile import test_leavings
from tests.sandbox.hostile.test_afterlife import (
    test_a_daemon_does_not_outlive_the_time_limit,
    test_an_agent_that_stops_all_its_processes_is_still_ended_on_time,
    test_an_ending_cannot_be_faked,
)
from tests.sandbox.hostile.test_answers import (
    test_answers_are_not_in_the_file_system,
    test_the_sockets_of_the_harness_are_inaccessible,
)
from tests.sandbox.hostile.test_dodges import (
    test_a_changed_clock_wants_more_time,
    test_a_daemon_wants_to_change_the_submission_while_it_is_collected,
    test_a_daemon_wants_to_outlive_a_successful_agent,
    test_a_fork_bomb_at_the_end_wants_to_delay_the_ending,
    test_a_lease_wants_to_delay_processes_that_open_the_data,
    test_a_pipe_without_an_end_wants_to_be_the_submission,
    test_descriptors_want_to_be_inherited,
    test_keys_of_the_kernel_want_to_be_shared,
    test_other_protocols_want_to_pass_the_proxy,
    test_signals_want_to_end_or_stop_the_first_process,
    test_silent_connections_want_to_delay_the_ending,
)
from tests.sandbox.hostile.test_leavings import test_an_agent_wants_to_enter_the_first_process
from tests.sandbox.hostile.test_network import (
    test_another_container_is_unreachable,
    test_names_cannot_be_resolved,
    test_the_metadata_address_is_unreachable,
)
from tests.sandbox.hostile.test_privileges import test_public_data_cannot_be_changed, test_the_agent_gains_no_privileges
from tests.sandbox.hostile.test_resources import (
    test_a_fork_bomb_hurts_only_itself,
    test_a_memory_bomb_ends_its_run_and_no_other,
    test_limits_cannot_be_raised_from_inside,
    test_shared_memory_counts_as_memory,
)
from tests.sandbox.hostile.test_submission import (
    test_a_hard_link_to_an_own_file_is_at_most_a_copy,
    test_a_submission_that_is_not_a_file_is_missing,
)
from tests.sandbox.hostile.test_system_calls import (
    answers,
    test_an_agent_wants_32_bit_system_calls,
    test_an_agent_wants_a_socket_that_bypasses_its_network,
    test_an_agent_wants_new_namespaces_from_clone,
    test_an_agent_wants_the_kernel_to,
    test_honest_programs_are_not_affected,
)
from tests.sandbox.scripted import SAMPLE, Result, Runner

pytestmark = [pytest.mark.docker, pytest.mark.serial]
TWIN = "spaceship-titanic"
TOY = {
    "competition.yaml": """
id: toy-competition
title: Toy
split: smoke
category: Tabular
data_types: [csv]
metric: accuracy
direction: higher
source: bundled
answers: private/answers.csv
sample_submission: public/sample_submission.csv
sample_submission_score: 0.0
leaderboard: {teams: 1000, gold: 0.9, silver: 0.8, bronze: 0.7, median: 0.6}
""",
    "description.md": "Predict the label.\n",
    "prepare.py": f"""
def prepare(raw, public, private):
    (public / "sample_submission.csv").write_text({SAMPLE!r})
    (private / "answers.csv").write_text("id,label\\n1,ANSWER-7f3a\\n2,ANSWER-9c1b\\n")
""",
    "grade.py": """
def grade(submission, answers):
    return float((submission["label"].astype(str) == answers["label"]).mean())
""",
}


class EpisodeRunner(Runner):
    """Runs each script as one step of an episode."""

    bench: Bench
    competition: Competition

    def __call__(self, script: str, *arguments: str, **limits: Any) -> Result:
        self.runs += 1
        group = self.folder / f"run-{self.runs}"
        bench = self.bench.with_settings(**{name: limits[name] for name in ("memory", "disk") if name in limits})
        options = {"data": "real", "time_limit": limits.get("time_limit", 60), "output_bytes": 1 << 20}
        with bench.episode(self.competition, group=group, **options) as episode:
            episode.reset(seed=0)
            if "processes" in limits:  # killing the default number of processes takes minutes on a slow machine
                script = f"ulimit -u {limits['processes']} || exit 1; {script}"
            step = episode.step(script)
            episode.submit()
            record = episode.record
        assert record is not None
        failed = record.ending is Ending.FINISHED and step.exit_code not in (0, None)
        execution = Execution(
            ending=Ending.CRASHED if failed else record.ending,
            seconds=record.seconds,
            exit_code=step.exit_code,
            signal=record.signal,
            detail=record.detail,
            sandbox=record.sandbox,
        )
        run_dir = group / record.run_id
        (run_dir / "run.log").write_text(step.output)
        return Result(execution, run_dir, self.verdicts)


def episodes_of_a_toy(folder: Path, sandbox: str) -> Runner:
    """Episodes of a competition whose answers contain a marker."""
    (folder / "toy-competition").mkdir()
    for name, text in TOY.items():
        (folder / "toy-competition" / name).write_text(text)
    competition = Competition.load(folder / "toy-competition")
    bench = bench_of_episodes(Bench(sandbox=sandbox, data_dir=folder / "data"))
    dataset = bench.store.prepare(competition)
    assert b"ANSWER-" in dataset.answers.read_bytes()
    runner = EpisodeRunner(bench.sandbox(agent_of_episodes()), folder, dataset.public, dataset.answers.parent)
    runner.bench, runner.competition = bench, competition
    return runner


@pytest.fixture(scope="module")
def module_runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    require_docker()
    return episodes_of_a_toy(tmp_path_factory.mktemp("attacks"), "docker")


@pytest.fixture
def attack(module_runner: Runner) -> Runner:
    return module_runner


@pytest.mark.parametrize(
    "wish", [name for name, command in test_leavings.WITH_RESULT.items() if "kill -9 -1" not in command]
)
def test_a_command_wants(wish: str, module_runner: Runner) -> None:
    test_leavings.test_an_agent_wants(wish, module_runner)


LOOK = r"""
env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\0' '\n'; ls -l /proc/*/fd 2>/dev/null
cat /proc/mounts /proc/*/mountinfo /proc/self/cgroup /proc/net/unix /proc/net/tcp /etc/hosts 2>/dev/null; hostname
find / -type s 2>/dev/null
ls -laR /home /tmp /run /opt/mlebench /var/tmp /dev/shm 2>/dev/null
find / -xdev -newer /home/data/description.md -type f -size -1M 2>/dev/null | head -3000
grep -rIh "" /home/code /home/agent /home/logs /tmp /run /var/tmp 2>/dev/null
"""


MEMORY = """
import os
wanted = [b"nothing omitted", *(str(number + 1).encode() for number in NUMBERS)]
found = set()
with open(f"/proc/{os.getppid()}/mem", "rb", 0) as memory:
    for line in open(f"/proc/{os.getppid()}/maps"):
        first, last = (int(place, 16) for place in line.split()[0].split("-"))
        try:
            memory.seek(first)
            data = memory.read(last - first)
        except (OSError, OverflowError, ValueError):
            continue
        found |= {word for word in wanted if word in data}
print("found in memory:", sorted(found))
"""
"""Searches for numbers in the memory of the step server. They are written as other numbers, so that it does not find
its own source."""


def test_neither_the_seed_nor_the_inputs_of_rewards_are_in_the_container(tmp_path: Path) -> None:
    require_docker()
    seed, world = 8_315_040_977_231, 6_041_993
    bench = Bench(sandbox="docker", network="none", data_dir=tmp_path)
    with bench.episode(TWIN, world=world, output_bytes=8 << 20, group=tmp_path / "episodes") as episode:
        episode.reset(seed)
        copied = episode.step("cat $DATA_DIR/sample_submission.csv > $SUBMISSION_DIR/submission.csv; #nothing omitted")
        measured = copied.info["measured"]
        assert measured.score is not None and measured.sample == measured.score, "the submission was graded"
        found = episode.step(LOOK)
        episode.write_file("look.py", MEMORY.replace("NUMBERS", str([seed - 1, world - 1])))
        memory = episode.step("exec python3 look.py").output
    assert "step_server.py" in found.output and "steps.sock" in found.output and "bytes omitted" not in found.output
    assert memory == "found in memory: [b'nothing omitted']\n", "known from the command"
    for secret in (seed, world, "halves", "milestones", "mlebench-episode-", "prepared/", tmp_path, measured.score):
        assert str(secret) not in found.output, secret
