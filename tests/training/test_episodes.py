"""Episodes: commands in a sandbox, their rewards, and their ends."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

from pytest_mlebench import Bench, UsageError, read_group
from pytest_mlebench.extras.training.channel import MAX_ANSWER, EpisodeOver, StepChannel
from pytest_mlebench.extras.training.episode import Episode
from pytest_mlebench.extras.training.halves import halves
from pytest_mlebench.extras.training.observation import Observation, printed
from pytest_mlebench.grading.rewards import REWARDS, Measured, improvement, with_time_cost
from pytest_mlebench.io.units import MAX_SECONDS
from pytest_mlebench.io.values import loads
from pytest_mlebench.records.outcome import Report

pytestmark = pytest.mark.full
COPY_SAMPLE = "cat $DATA_DIR/sample_submission.csv > $SUBMISSION_DIR/submission.csv"  # cp would keep the file read-only
MODEL = """
import os, pandas
from sklearn.ensemble import HistGradientBoostingClassifier
data = os.environ["DATA_DIR"]
train, test = (pandas.read_csv(f"{data}/{side}.csv") for side in ("train", "test"))
columns = [name for name in test.select_dtypes("number")]
model = HistGradientBoostingClassifier(max_iter=30).fit(train[columns], train["Transported"])
test[["PassengerId"]].assign(Transported=model.predict(test[columns])).to_csv(
    os.environ["SUBMISSION_DIR"] + "/submission.csv", index=False)
"""
TWIN, REAL = "spaceship-titanic", "smoke-diabetes"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(sandbox="local", data_dir=tmp_path_factory.mktemp("data"))


@pytest.fixture
def episode(bench: Bench) -> Iterator[Episode]:
    """An episode on real data, which is ready at once."""
    with bench.episode(REAL, data="real", output_bytes=1000) as made:
        made.reset(seed=0)
        yield made


def test_a_step_returns_the_result_of_the_command_and_files_persist(episode: Episode) -> None:
    step = episode.step("echo out; echo err >&2; echo kept > kept.txt; exit 3")
    assert (step.output, step.exit_code, step.submission) == ("out\nerr\n", 3, "absent")
    assert episode.step("cat kept.txt").output == "kept\n"
    assert not (step.terminated or step.truncated) and step.reward == 0


def test_an_observation_shows_the_task_and_names_no_folder_of_the_sandbox(bench: Bench) -> None:
    with bench.episode(REAL, data="real") as episode:
        first, second = episode.reset(seed=0), episode.reset(seed=0)
    assert first == second and "$DATA_DIR" in first.instructions
    assert first.files.keys() == {"description.md", "sample_submission.csv", "test.csv", "train.csv"}
    assert first.heads["train.csv"].startswith("id,age,") and "Task" in first.description


def test_background_processes_live_until_the_episode_ends(episode: Episode) -> None:
    pid = int(episode.step("sleep 1000 & echo $!").output)
    assert Path(f"/proc/{pid}").exists()
    assert "hello" in episode.step("(sleep 0.2; echo hello > late.txt) & wait; cat late.txt").output
    episode.close()
    assert not Path(f"/proc/{pid}").exists()


def test_a_command_that_takes_too_long_is_killed_and_the_episode_continues(episode: Episode) -> None:
    step = episode.step("echo begun; sleep 60", timeout=0.5)
    assert step.info["killed"] and step.output == "begun\n\n[killed after 0.5 s]" and step.seconds < 30
    assert episode.step("echo on").output == "on\n"


def test_long_output_keeps_its_beginning_and_its_end(episode: Episode) -> None:
    step = episode.step("echo first; yes | head -c 1000000; echo last")
    assert step.output.startswith("first\n") and step.output.endswith("last\n") and len(step.output) < 1100
    assert "bytes omitted" in step.output


@pytest.mark.parametrize(("keep", "head", "tail"), [(1, "", "2"), (2, "0", "2"), (5, "01", "012")])
def test_output_is_limited_exactly(bench: Bench, keep: int, head: str, tail: str) -> None:
    with bench.episode(REAL, data="real", output_bytes=keep) as episode:
        episode.reset(seed=0)
        step = episode.step("yes 012 | tr -d '\\n' | head -c 300000; sleep 0.1; printf 012")
    assert step.output == f"{head}\n[… {300_003 - keep:,} bytes omitted …]\n{tail}"


@pytest.mark.parametrize("part", ["head", "tail", "error"])
def test_a_sandbox_cannot_exceed_the_limit_of_output_or_add_invalid_characters(part: str) -> None:
    forged = loads(json.dumps({part: "\ud800x" * 5_000_000, "omitted": -1}))
    output = printed(forged, False, 1, 1000)
    assert len(output) <= 1000 and output.encode().count(b"x") > 100


def test_files_are_written_and_read(episode: Episode) -> None:
    episode.write_file("$CODE_DIR/deep/a.bin", b"\0\xff")
    assert episode.read_file("deep/a.bin") == b"\0\xff"
    with pytest.raises(UsageError, match=r"nothing\.txt cannot be read: .*No such file"):
        episode.read_file("nothing.txt")
    with pytest.raises(UsageError, match="cannot be written"):
        episode.write_file("/proc/nowhere/x", "text")


def test_pipes_do_not_block_and_pipes_and_links_are_not_submissions(episode: Episode) -> None:
    step = episode.step("mkfifo pipe $SUBMISSION_DIR/submission.csv")
    assert step.submission.endswith("it is not a regular file") and not step.terminated
    link = episode.step("ln -sf $DATA_DIR/sample_submission.csv $SUBMISSION_DIR/submission.csv")
    assert link.submission.endswith("it is not a regular file"), "as at the end of an episode"
    assert episode.read_file("pipe") == b""
    with pytest.raises(UsageError, match="pipe cannot be written"):
        episode.write_file("pipe", b"x")
    assert episode.step("echo on").output == "on\n"


def test_on_real_data_a_step_reveals_no_score(episode: Episode) -> None:
    step = episode.step(COPY_SAMPLE)
    measured = step.info["measured"]
    assert step.submission == "valid" and measured.valid
    assert (measured.score, measured.percentile, measured.medal, measured.above_median) == (None, None, None, False)
    step = episode.step("echo x > $SUBMISSION_DIR/submission.csv")
    assert step.submission.startswith("malformed: ") and step.reward < 0.2
    assert episode.step("rm $SUBMISSION_DIR/submission.csv").submission == "absent"


@pytest.mark.parametrize(
    ("command", "seconds"),
    [("kill -9 $PPID; sleep 9", 5), ("kill -STOP $PPID; sleep 1", 60)],
    ids=["kills the step server", "stops it"],
)
def test_a_command_that_attacks_the_episode_ends_it_and_nothing_hangs(
    bench: Bench, command: str, seconds: float
) -> None:
    with bench.episode(REAL, data="real", step_timeout=2, answer_timeout=3) as episode:
        episode.reset(seed=0)
        episode.step(COPY_SAMPLE)
        started = time.monotonic()
        step = episode.step(command)
        assert step.terminated and "the episode has ended" in step.output
        assert episode.step("echo more").terminated
        report = episode.submit()
        assert time.monotonic() - started < seconds + 10
        assert report.score is not None, "the submission was written before"
        assert episode.reset(seed=1).files, "the next episode is not affected"


def test_the_longest_time_limits_work(bench: Bench) -> None:
    limits = dict.fromkeys(("time_limit", "step_timeout", "answer_timeout"), MAX_SECONDS)
    with bench.episode(REAL, data="real", **limits) as episode:
        assert episode.reset(seed=0).time_limit == MAX_SECONDS
        assert episode.step("echo on", timeout=MAX_SECONDS).output == "on\n"


def test_an_episode_has_a_time_limit(bench: Bench) -> None:
    with bench.episode(REAL, data="real", time_limit=3) as episode:
        episode.reset(seed=0)
        step = episode.step("sleep 30")
        assert step.truncated and not step.terminated
        assert episode.step("echo more").truncated


def test_a_twin_gives_scores_on_one_half_and_is_graded_on_the_other(bench: Bench, tmp_path: Path) -> None:
    with bench.episode(TWIN, group=tmp_path / "episodes") as episode:
        first = episode.reset(seed=1)
        sample = episode.step(COPY_SAMPLE)
        episode.write_file("model.py", MODEL)
        better = episode.step("python model.py")
        report = episode.submit()
        assert better.output == "" and better.submission == "valid"
        assert better.info["measured"].score > sample.info["measured"].score == better.info["measured"].sample
        assert better.reward > sample.reward
        record = episode.record
        assert record is not None and report.score not in (None, better.info["measured"].score, record.report.score)
    with bench.episode(TWIN) as other:
        assert other.reset(seed=1) == first, "the same seed gives the same task"
        assert other.reset(seed=2) != first
    group = read_group(tmp_path / "episodes")
    assert [run.run_id for run in group.records] == [record.run_id] and group.records[0].split == "dev twin"


def test_a_seed_has_the_same_rewards_in_another_data_folder(bench: Bench, tmp_path: Path) -> None:
    other = Bench(sandbox="local", data_dir=tmp_path)
    scores = []
    for one in (bench, other):
        with one.episode(TWIN) as episode:
            episode.reset(seed=3)
            step = episode.step("sed 2~3s/False/True/ $DATA_DIR/sample_submission.csv > $SUBMISSION_DIR/submission.csv")
            scores.append((step.info["measured"].score, episode.submit().score))
    assert scores[0] == scores[1] and scores[0][0] != scores[0][1]


def test_an_episode_can_override_options_of_the_bench(bench: Bench) -> None:
    contained = Bench(sandbox="docker", data_dir=bench.data_dir)
    with contained.episode(REAL, data="real", sandbox="local", memory="1g") as episode:
        assert "1 GiB of memory" in episode.reset(seed=0).instructions
        assert episode.step("id -u").output == f"{os.getuid()}\n", "runs as this user"
    assert contained.settings.sandbox == "docker" and contained.settings.memory is None
    jobs = [(REAL, 0)]
    (played,) = contained.play(lambda episode, _: None, jobs, data="real", sandbox="local")
    assert played.error is None and played.report is not None


@pytest.mark.docker
def test_an_episode_with_another_network_does_not_reuse_a_sandbox(bench: Bench) -> None:
    contained = bench.with_settings(sandbox="docker", network="full")
    networks = []
    for options in ({}, {"network": "none"}):
        with contained.episode(REAL, data="real", **options) as episode:
            episode.reset(seed=0)
            episode.close()
        assert episode.record is not None
        networks.append(episode.record.sandbox.network)
    assert networks == ["full", "none"]


def test_the_result_of_a_step_does_not_depend_on_the_test_half(bench: Bench, tmp_path: Path) -> None:
    dataset = bench.with_settings(data="twin:5:micro").store.prepare(bench.catalogue[TWIN])
    pair = halves(dataset, tmp_path / "first", "secret")
    assert pair is not None
    validation, test = pair
    answers = pd.read_csv(dataset.answers)
    in_test = answers["PassengerId"].isin(validation.others)
    assert 0.3 < in_test.mean() < 0.7 and set(answers["PassengerId"][~in_test]) == set(test.others)
    copy = type(dataset)(dataset.competition, tmp_path / "other")
    shutil.copytree(dataset.prepared, copy.prepared)
    copy.answers.chmod(0o644)
    answers.assign(Transported=answers["Transported"] ^ in_test).to_csv(copy.answers, index=False)
    other = halves(copy, tmp_path / "second", "secret")
    assert other is not None
    mine, theirs = validation.report(dataset.sample_submission), other[0].report(dataset.sample_submission)
    assert mine.score == theirs.score
    assert test.report(dataset.sample_submission).score != other[1].report(dataset.sample_submission).score


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda bench: bench.episode("nothing"), "unknown competition"),
        (lambda bench: bench.episode(REAL, rewards="x"), "episode has no option rewards; it has data"),
        (lambda bench: bench.episode(REAL, memory="lots"), "memory: 'lots'"),
        (lambda bench: bench.episode(REAL, reward="x"), "reward: 'x' is not one of milestones"),
        (lambda bench: bench.episode(REAL, step_timeout=0), "step_timeout: 0 is not a positive number"),
        (
            lambda bench: bench.episode(REAL, step_timeout=-1e12),
            "step_timeout: -1000000000000.0 is not a positive number",
        ),
        (lambda bench: bench.episode(REAL, step_timeout=-(10**5000)), "step_timeout: a number of thousands of digits"),
        *(
            (lambda bench, name=name: bench.episode(REAL, **{name: 10**5000}), f"{name}: a number of thousands of digi")
            for name in ("time_limit", "step_timeout", "answer_timeout")
        ),
        (lambda bench: bench.episode(REAL, world=10**5000), "world: a number of thousands of digits is not a whole"),
        (lambda bench: bench.episode(REAL, output_bytes=-(10**5000)), "output_bytes: a number of thousands of digits"),
        (lambda bench: bench.episode(REAL, data="real").write_file("x", "a\ud800"), "x: the text has a character that"),
        (
            lambda bench: bench.episode(REAL, data="real").step("ls", timeout=float("inf")),
            "timeout: inf is not a positive number of seconds, of at most a hundred years",
        ),
        (
            lambda bench: bench.episode(REAL, data="real").step("ls", timeout=float("nan")),
            "timeout: nan is not a posit",
        ),
        (
            lambda bench: bench.episode(REAL, data="real").reset("x"),
            "the seed must be an integer of at least 0, not 'x'",
        ),
        (lambda bench: list(bench.play(print, [REAL])), f"a job is a competition and a seed, .*, not '{REAL}'"),
        (lambda bench: bench.episode(REAL, data="real").step("ls"), "there is no episode: call reset"),
    ],
)
def test_an_invalid_argument_is_reported(bench: Bench, use: Callable[[Bench], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        use(bench)


def test_rewards_are_pure_functions_that_rise_with_the_result() -> None:
    stages = [
        Measured(),
        Measured(exists=True),
        Measured(exists=True, valid=True, score=0.5, sample=0.5, percentile=0),
        Measured(exists=True, valid=True, score=0.6, sample=0.5, percentile=30),
        Measured(exists=True, valid=True, score=0.7, sample=0.5, percentile=55, above_median=True),
        *(
            Measured(exists=True, valid=True, score=0.8, sample=0.5, percentile=p, above_median=True, medal=medal)
            for medal, p in (("bronze", 70), ("silver", 85), ("gold", 95))
        ),
    ]
    milestones = [REWARDS["milestones"](stage) for stage in stages]
    assert milestones == sorted(set(milestones)) and (milestones[0], milestones[-1]) == (0, 1)
    for name in ("percentile", "medal"):
        values = [REWARDS[name](stage) for stage in stages]
        assert values == sorted(values) and 0 <= values[0] < values[-1] <= 1
    assert improvement(Measured(score=0.4, best=0.5, sample=0.1)) == 0
    assert improvement(Measured(score=0.4, best=0.5, sample=0.9, lower_is_better=True)) == 1
    costly = with_time_cost(REWARDS["medal"], weight=0.5)
    assert costly(Measured(medal="gold", seconds=60, time_limit=60)) == 0.5


@pytest.mark.parametrize(
    "answer",
    [
        *(b"nonsense\n", b"[]\n", b"[" * 100_000 + b"\n", b"", b'{"seconds": 1%s}\n' % (b"0" * 400), b'{"\xff": 1}\n'),
        b'{"head": "%s"}\n' % (b"x" * MAX_ANSWER),
    ],
    ids=range(7),
)
def test_responses_of_a_sandbox_are_not_trusted(answer: bytes, tmp_path: Path) -> None:
    channel = StepChannel()
    with channel.open() as path, socket.socket(socket.AF_UNIX) as sandbox:
        sandbox.connect(path)
        assert channel.wait(5)
        threading.Thread(target=_send, args=(sandbox, answer), daemon=True).start()
        with pytest.raises(EpisodeOver):
            channel.receive(5)


def _send(sandbox: socket.socket, answer: bytes) -> None:
    with suppress(OSError):  # the episode is over
        sandbox.sendall(answer)
        sandbox.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("order", ["run", "read", "write"])
def test_a_sandbox_cannot_make_the_harness_use_much_memory(order: str, bench: Bench) -> None:
    """An answer may be as long as what was asked for, but not in many parts."""
    with bench.episode(REAL, data="real") as episode:
        episode.reset(seed=0)
        channel = episode._current._channel
        ours, sandbox = socket.socketpair()
        connection, channel._connection = channel._connection, ours
        forged = b'{"submission": [%s{}]}\n' % (b"{}," * (10 << 20))
        threading.Thread(target=_send, args=(sandbox, forged), daemon=True).start()
        tracemalloc.start()
        try:
            if order == "run":
                assert episode.step("true").terminated
            else:
                with pytest.raises(EpisodeOver):
                    episode.read_file("x") if order == "read" else episode.write_file("x", "")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            sandbox.close()
            ours.close()
            channel._connection = connection
    assert peak < 150 << 20


def test_episodes_are_played_concurrently_and_one_failure_affects_no_other(bench: Bench) -> None:
    together = threading.Barrier(2, timeout=120)

    def policy(episode: Episode, observation: Observation) -> None:
        episode.step(COPY_SAMPLE)
        number = episode.seed
        if number in (0, 1):
            together.wait()  # both are running
        if number == 2:
            raise ValueError("a policy with a mistake")
        if number == 3:
            episode.step("kill -9 $PPID; sleep 5")

    jobs = itertools.chain([(REAL, number) for number in range(5)], [("nothing", 5)])
    played = {own.job.seed: own for own in bench.play(policy, jobs, parallel=2, data="real")}
    assert played.keys() == set(range(6))
    assert [played[n].report.score for n in (0, 1, 3, 4)] == [72.61873] * 4
    assert isinstance(played[2].error, ValueError) and "unknown competition" in str(played[5].error)
    endless = ((REAL, number) for number in itertools.count(6))
    for first in bench.play(policy, endless, parallel=1, data="real"):
        assert first.report is not None
        break
    for options, message in (
        ({"parallel": 0}, "parallel: 0 is not a whole number of at least 1"),
        ({"replacements": -1}, "replacements: -1 is not a whole number of at least 0"),
        ({"rewards": "x"}, "episode has no option rewards; it has data"),
    ):
        with pytest.raises(UsageError, match=message):
            bench.play(policy, [], **options)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_policy_may_submit_by_itself_without_returning_the_report(bench: Bench, restarts: bool) -> None:
    """If it then starts another episode, that one is submitted."""
    reports: list[Report] = []

    def policy(episode: Episode, observation: Observation) -> None:
        episode.step(COPY_SAMPLE)
        reports.append(episode.submit())
        if restarts:
            episode.reset(seed=1)

    (played,) = bench.play(policy, [(TWIN, 0)])
    assert played.error is None and played.report is not None and reports[0].score is not None
    assert (played.report != reports[0], played.report.submission_exists) == (restarts, not restarts)


def crashing(
    times: int, crash: Callable[[Episode], None]
) -> tuple[Callable[[Episode, Observation], None], list[int | None]]:
    """A policy whose first sandboxes crash, and the seeds with which it was called."""
    seeds: list[int | None] = []

    def policy(episode: Episode, observation: Observation) -> None:
        seeds.append(episode.seed)
        if len(seeds) <= times:
            crash(episode)
        assert not episode.step(COPY_SAMPLE).terminated

    return policy, seeds


def kill_supervisor(episode: Episode) -> None:
    episode.step("kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 9")


def test_an_episode_whose_sandbox_crashed_is_replaced_and_reported(bench: Bench, tmp_path: Path) -> None:
    policy, seeds = crashing(1, kill_supervisor)
    (played,) = bench.play(policy, [(REAL, 7)], data="real", group=tmp_path / "episodes")
    assert seeds == [7, 7] and played.error is None and played.report is not None
    assert played.report.score == 72.61873 and len(played.crashes) == 1
    assert "supervisor ended" in played.crashes[0]
    (record,) = read_group(tmp_path / "episodes").records
    assert record.error is None, "only the replacement is recorded"
    policy, seeds = crashing(9, kill_supervisor)
    (played,) = bench.play(policy, [(REAL, 7)], data="real", replacements=2)
    assert seeds == [7, 7, 7] and len(played.crashes) == 2
    assert played.report is None and "supervisor ended" in str(played.error)


@pytest.mark.docker
def test_an_episode_whose_container_was_stopped_is_replaced(bench: Bench) -> None:
    def stop(episode: Episode) -> None:
        mine = f"label=mlebench.pid={os.getpid()}"
        found = subprocess.run(["docker", "ps", "-q", "--filter", mine], check=True, capture_output=True, text=True)
        subprocess.run(["docker", "kill", *found.stdout.split()], check=True, capture_output=True)

    policy, seeds = crashing(1, stop)
    contained = bench.with_settings(sandbox="docker", network="none")
    (played,) = contained.play(policy, [(REAL, 7)], data="real")
    assert seeds == [7, 7] and "was stopped from outside" in played.crashes[0]
    assert played.error is None and played.report is not None and played.report.score == 72.61873


def test_a_missing_gymnasium_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "pytest_mlebench.extras.training.gym", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'pytest-mlebench\[gym\]'"):
        importlib.import_module("pytest_mlebench.extras.training.gym")


def test_gymnasium_accepts_the_environment(bench: Bench) -> None:
    from gymnasium.utils.env_checker import check_env

    from pytest_mlebench.extras.training.gym import CompetitionEnv

    with bench.episode(REAL, data="real") as episode:
        environment = CompetitionEnv(episode)
        check_env(environment, skip_render_check=True)
        text, _ = environment.reset(seed=1)
        assert "sample_submission.csv: " in text
        environment.step(COPY_SAMPLE)
        _, reward, terminated, _, info = environment.step("submit")
        assert terminated and float(reward) > 0 and info["report"].score == 72.61873


def test_the_documented_program_runs_unchanged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs/training.md").read_text(encoding="utf-8")
    program = page.split("```python\n")[1].split("```")[0]
    assert len(program.splitlines()) <= 15
    monkeypatch.setenv("MLEBENCH_DATA_DIR", str(bench.data_dir))
    exec(program.replace('sandbox="docker", network="none"', 'sandbox="local"'), {})
    assert capsys.readouterr().out.count(" valid 0.2857") == 3


@pytest.mark.docker
def test_in_a_container_a_command_runs_as_the_agents_user_and_finds_no_answers(bench: Bench) -> None:
    contained = bench.with_settings(sandbox="docker", network="none")
    with contained.episode(TWIN) as episode:
        episode.reset(seed=1)
        step = episode.step(COPY_SAMPLE + "; id -un; pwd; cat /proc/1/cmdline | tr '\\0' ' '; env")
        assert step.output.startswith("nonroot\n/home/code\n") and "STEPS_ADDRESS" not in step.output
        assert step.submission == "valid" and step.info["measured"].score is not None
        found = episode.step("find / -name private -o -name 'twin*' -not -path '/proc/*' 2>/dev/null; cat /proc/mounts")
        assert "/twins/" not in found.output and str(bench.data_dir) not in found.output
        assert episode.step("python3 -c 'import socket; socket.create_connection((\"localhost\", 5002), 2)'; true")
        assert episode.submit().score is not None
