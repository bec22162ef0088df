"""``mlebench export --to=harbor``: the task folders, without Harbor. ``test_harbor_real`` runs them."""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
import subprocess
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench import Bench, default_catalogue
from pytest_mlebench.cli.main import main
from pytest_mlebench.data.dataset import TIME_NS, Dataset
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.extras.interop.harbor import check, fetch, verify, wheel
from pytest_mlebench.extras.interop.harbor.task import to_toml, without_comments
from pytest_mlebench.extras.remote_data.storage import Storage
from pytest_mlebench.gate.leaks import find_leaks
from pytest_mlebench.records.outcome import Report
from tests.data.remote_servers import KEYS, make_bucket, running_s3, s3_environment
from tests.groups import report_of

SEED = 8_417_263_550_918_274_655
ZEROS = {"reward": 0.0, "valid": 0, "above_median": 0, "bronze": 0, "silver": 0, "gold": 0}


def exported(folder: Path, *words: str) -> Path:
    """Export tasks, and return their folder."""
    assert main(["export", "--to=harbor", "-o", str(folder), *words]) == 0
    return folder


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["export", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return (
        exported(tmp_path_factory.mktemp("harbor") / "tasks", "-c", "smoke-diabetes", "--time-limit=90m")
        / "smoke-diabetes"
    )


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("harbor")
    words = ("-c", "spaceship-titanic", f"--data=twin:{SEED}:micro", f"--data-dir={folder / 'data'}")
    return exported(folder / "tasks", *words) / "spaceship-titanic"


def graded(task: Path, submission: Path, logs: Path) -> tuple[dict[str, float], dict[str, Any]]:
    """The rewards and the report of a task's verifier for a submission."""
    logs.mkdir(exist_ok=True)
    assert verify.main(task / "tests", submission, logs) == 0
    return json.loads((logs / "reward.json").read_text()), json.loads((logs / "report.json").read_text())


def test_a_task_has_the_settings_that_harbor_needs(smoke: Path) -> None:
    config = tomllib.loads((smoke / "task.toml").read_text())
    assert config["task"]["name"] == "mlebench/smoke-diabetes"
    assert config["agent"]["timeout_sec"] == 5400
    assert config["verifier"]["environment_mode"] == "separate"
    assert config["artifacts"] == ["/home/submission/submission.csv"]
    instruction = (smoke / "instruction.md").read_text()
    assert "You have 1 hour 30 minutes." in instruction
    assert (smoke / "environment/data/description.md").read_text() in instruction
    assert (smoke / "environment/instructions.txt").read_text() == instruction


def test_limits_and_network_follow_the_options(tmp_path: Path) -> None:
    tasks = exported(
        tmp_path, "-c", "smoke-digits", "--cpus=4", "--memory=8g", "--disk=20g", "--gpus=1", "--network=none"
    )
    config = tomllib.loads((tasks / "smoke-digits/task.toml").read_text())["environment"]
    del config["build_timeout_sec"]
    assert config == {
        "cpus": 4.0, "memory_mb": 8192, "storage_mb": 20480, "gpus": 1, "network_mode": "no-network"
    }  # fmt: skip
    hosts = ("--allow-host=pypi.org", "--allow-host=https://example.com/simple")
    other = exported(tmp_path / "hosts", "-c", "smoke-digits", *hosts)
    config = tomllib.loads((other / "smoke-digits/task.toml").read_text())["environment"]
    assert (config["network_mode"], config["allowed_hosts"]) == ("allowlist", ["pypi.org", "example.com"])


def test_a_host_with_a_port_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(capsys, "--to=harbor", "-c", "smoke-digits", "--allow-host=example.com:8080")
    assert line.endswith("Harbor limits hosts, not ports: write --allow-host=example.com")


def test_prebuilt_images_of_the_user_are_referenced_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = exported(tmp_path, "-c", "smoke-digits", "--image-prefix=ghcr.io/Me/")  # Docker allows no capital letters
    config = tomllib.loads((tasks / "smoke-digits/task.toml").read_text())
    assert config["environment"]["docker_image"] == "ghcr.io/me/smoke-digits"
    assert config["verifier"]["environment"]["docker_image"] == "ghcr.io/me/smoke-digits-verifier"
    said = capsys.readouterr().out
    assert f"docker build -t ghcr.io/me/smoke-digits-verifier {tasks}/smoke-digits/tests" in said


def test_answers_are_only_in_the_tests_folder(smoke: Path, twin: Path) -> None:
    for task in (smoke, twin):
        private = [path for path in (task / "tests/data/prepared/private").rglob("*") if path.is_file()]
        assert private
        contents = {path.read_bytes() for path in private}
        elsewhere = [path for path in (task / "environment").rglob("*") if path.is_file()]
        assert not [path for path in elsewhere if path.read_bytes() in contents]
        names = {path.name for path in elsewhere}
        assert not names & {"prepare.py", "twin.py", "synthetic.py", "competition.yaml", "twin.json", "golden.json"}


@pytest.mark.full
def test_the_search_for_leaks_finds_none_in_the_environment(smoke: Path, twin: Path, tmp_path: Path) -> None:
    """All files of the agent's image are searched as if they were public data."""
    for task in (smoke, twin):
        dataset = Dataset(default_catalogue()[task.name], tmp_path / task.name)
        shutil.copytree(task / "tests/data/prepared/private", dataset.private)
        shutil.copytree(task / "environment/data", dataset.public)
        known = find_leaks(dataset)
        shutil.copytree(task / "environment", dataset.public / "image", ignore=shutil.ignore_patterns("data"))
        with zipfile.ZipFile(task / "environment/mlebench" / wheel.NAME) as archive:
            archive.extractall(dataset.public / "image/wheel")
        assert find_leaks(dataset) == known == []
        shutil.copyfile(dataset.answers, dataset.public / "image/answers.csv")
        assert find_leaks(dataset) != []


def test_public_data_matches_the_dataset(smoke: Path) -> None:
    with Bench() as bench:
        (dataset,) = bench.prepare("smoke-diabetes")
    for path in dataset.public.iterdir():
        assert (smoke / "environment/data" / path.name).read_bytes() == path.read_bytes()


def test_the_seed_of_a_twin_is_not_exported(twin: Path) -> None:
    needles = [form.encode() for form in (str(SEED), f"{SEED:x}")] + [SEED.to_bytes(8), SEED.to_bytes(8, "little")]
    for path in twin.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not any(needle in content for needle in needles), path
    medals = json.loads((twin / "tests/data/twin.json").read_text())
    assert medals.keys() == {"medals"}


def test_the_key_of_a_twin_is_only_in_the_verifier(twin: Path) -> None:
    task = json.loads((twin / "tests/task.json").read_text())
    key = task["data"].split(":")[1]
    files = [path for path in twin.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    assert {path.relative_to(twin).parts[0] for path in files} == {"tests"}


def test_file_times_reveal_nothing(twin: Path) -> None:
    assert {path.stat().st_mtime_ns for path in (twin, *twin.rglob("*"))} == {TIME_NS}


def test_the_wheel_contains_no_competition_and_no_twin_generator(smoke: Path) -> None:
    with zipfile.ZipFile(smoke / "environment/mlebench" / wheel.NAME) as archive:
        names = archive.namelist()
    assert "pytest_mlebench/grading/scorer.py" in names
    strange = [name for name in names if any(f"/{part}/" in name for part in ("worlds", "bundled", "extras"))]
    assert not strange


def test_the_wheel_build_is_reproducible(tmp_path: Path) -> None:
    for name in ("one", "two"):
        wheel.write_wheel(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_the_reference_solution_earns_a_medal(smoke: Path, twin: Path, tmp_path: Path) -> None:
    for task in (smoke, twin):
        rewards, _ = graded(task, task / "solution/submission.csv", tmp_path / task.name)
        assert rewards["valid"] == rewards["above_median"] == rewards["bronze"] == 1
        assert rewards["reward"] > 0.5


@pytest.mark.parametrize("seed", range(4))
def test_scores_match_mlebench_grade_to_the_last_digit(
    twin: Path, tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed)
    table = pd.read_csv(twin / "solution/submission.csv")
    wrong = rng.random(len(table)) < 0.1 * seed
    table.loc[wrong, "Transported"] = ~table.loc[wrong, "Transported"]
    table.to_csv(tmp_path / "submission.csv", index=False)
    rewards, noted = graded(twin, tmp_path / "submission.csv", tmp_path / "logs")
    capsys.readouterr()
    words = ["grade-sample", str(tmp_path / "submission.csv"), "spaceship-titanic", "--json",
        f"--data=twin:{SEED}:micro", f"--data-dir={twin.parents[1] / 'data'}"]  # fmt: skip
    assert main(words) == 0
    ours = json.loads(capsys.readouterr().out)
    differ = {name for name, value in ours.items() if noted["report"][name] != value}
    assert differ <= {"created_at", "submission_path"}
    assert rewards == verify.rewards(Report(**ours), "percentile")


@pytest.mark.parametrize(
    ("content", "valid"),
    [("", 0), ("x,y\n1,2\n", 0), ("id,progression\n1,2\n", 0), ("\0" * 100, 0), ("id,progression\nnan,nan\n", 0)],
)
def test_a_malformed_submission_gets_zeros(smoke: Path, tmp_path: Path, content: str, valid: int) -> None:
    (tmp_path / "submission.csv").write_text(content)
    rewards, noted = graded(smoke, tmp_path / "submission.csv", tmp_path / "logs")
    assert rewards == ZEROS
    assert noted["report"]["submission_exists"] and noted["report"]["error"]


def test_a_missing_submission_gets_zeros(smoke: Path, tmp_path: Path) -> None:
    rewards, noted = graded(smoke, tmp_path / "submission.csv", tmp_path / "logs")
    assert rewards == ZEROS
    assert not noted["report"]["submission_exists"]


def test_a_link_to_the_answers_is_not_a_submission(smoke: Path, tmp_path: Path) -> None:
    (tmp_path / "file.csv").symlink_to(smoke / "tests/data/prepared/private/test.csv")
    (tmp_path / "folder").symlink_to(smoke / "tests/data/prepared/private")
    for path in (tmp_path / "file.csv", tmp_path / "folder/test.csv"):
        rewards, _ = graded(smoke, path, tmp_path / "logs")
        assert rewards == ZEROS


def test_the_verifier_script_writes_zeros_on_any_failure(smoke: Path, tmp_path: Path) -> None:
    script = (smoke / "tests/test.sh").read_text().replace("/logs/verifier", f"{tmp_path}/logs")
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=False, timeout=60)
    assert done.returncode != 0, "no grader is installed here"
    assert json.loads((tmp_path / "logs/reward.json").read_text()) == ZEROS


@pytest.mark.parametrize("name", ["percentile", "medal", "milestones"])
@pytest.mark.parametrize("score", [0.0, 55.0, 60.0, 1e9, math.inf, None])
def test_each_reward_is_a_finite_number(name: str, score: float | None) -> None:
    competition = default_catalogue()["smoke-diabetes"]
    found = verify.rewards(report_of(competition, score), name, 72.6)
    assert found.keys() == ZEROS.keys()
    assert all(math.isfinite(value) and 0 <= value <= 1 for value in found.values())


def test_rewards_can_be_chosen(tmp_path: Path) -> None:
    found: dict[str, Mapping[str, float]] = {}
    for name in ("percentile", "medal", "milestones"):
        task = exported(tmp_path / name, "-c", "smoke-diabetes", f"--reward={name}") / "smoke-diabetes"
        sample = task / "environment/data/sample_submission.csv"
        found[name], _ = graded(task, sample, tmp_path / f"{name}-logs")
    assert found["medal"]["reward"] == 0
    assert found["milestones"]["reward"] == pytest.approx(2 / 7), "it exists and is valid"
    assert all(own["valid"] == 1 and own["bronze"] == 0 for own in found.values())


def test_the_checker_knows_only_the_format(smoke: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checker, data = smoke / "environment/mlebench/checker", smoke / "environment/data"
    assert check.main(str(data / "sample_submission.csv"), checker, data) == 0
    assert capsys.readouterr().out == "Submission is valid.\n"
    (tmp_path / "bad.csv").write_text("id,wrong\n1,2\n")
    assert check.main(str(tmp_path / "bad.csv"), checker, data) == 1
    assert capsys.readouterr().out.startswith("Submission invalid! column 'progression' is missing")


def titanic(folder: Path) -> tuple[str, str]:
    return "--competition=spaceship-titanic", f"--data-dir={folder / 'data'}"


def real_store(folder: Path) -> Dataset:
    """Synthetic data that counts as real, because the record of its origin is removed."""
    competition = default_catalogue()["spaceship-titanic"]
    dataset = DataStore(folder).prepare(competition, synthetic=1)
    dataset.note(synthetic=None)
    return dataset


def test_real_data_is_mounted_and_never_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = real_store(tmp_path / "data")
    task = (
        exported(tmp_path / "tasks", "-c", "spaceship-titanic", f"--data-dir={tmp_path / 'data'}") / "spaceship-titanic"
    )
    said = capsys.readouterr().out
    assert "real data is not part of 1 task" in said and "MLEBENCH_DATA_DIR" in said
    contents = {path.read_bytes() for path in dataset.prepared.rglob("*.csv")}
    assert not [path for path in task.rglob("*") if path.is_file() and path.read_bytes() in contents]
    assert not (task / "solution").exists()
    compose = (task / "environment/docker-compose.yaml").read_text()
    assert "/spaceship-titanic/prepared/public:/home/data:ro" in compose
    assert "COPY data" not in (task / "environment/Dockerfile").read_text()
    assert "/spaceship-titanic/prepared:/tests/data/prepared:ro" in (task / "tests/docker-compose.yaml").read_text()
    assert str(tmp_path) not in "".join(path.read_text() for path in task.rglob("docker-compose.yaml"))


def test_real_data_is_copied_on_request(tmp_path: Path) -> None:
    dataset = real_store(tmp_path / "data")
    task = exported(tmp_path / "tasks", *titanic(tmp_path), "--include-real-data") / "spaceship-titanic"
    assert (task / "environment/data/train.csv").read_bytes() == (dataset.public / "train.csv").read_bytes()
    assert not (task / "environment/docker-compose.yaml").exists()
    assert not (task / "solution").exists(), "answers are only in tests/"


def test_synthetic_data_stays_marked(tmp_path: Path) -> None:
    DataStore(tmp_path / "data").prepare(default_catalogue()["spaceship-titanic"], synthetic=1)
    task = (
        exported(tmp_path / "tasks", "-c", "spaceship-titanic", f"--data-dir={tmp_path / 'data'}") / "spaceship-titanic"
    )
    _, noted = graded(task, task / "solution/submission.csv", tmp_path / "logs")
    assert noted["report"]["generated"] == "synthetic"


def test_the_corrected_version_is_graded_by_its_grader(tmp_path: Path) -> None:
    words = (
        "-c",
        "spaceship-titanic",
        "--bench-version=2",
        f"--data=twin:{SEED}:micro",
        f"--data-dir={tmp_path / 'data'}",
    )
    task = exported(tmp_path / "tasks", *words) / "spaceship-titanic"
    rewards, noted = graded(task, task / "solution/submission.csv", tmp_path / "logs")
    assert noted["report"]["bench_version"] == "v2"
    assert rewards["bronze"] == 1


def test_custom_competitions_are_exported(tmp_path: Path) -> None:
    own = tmp_path / "competitions"
    shutil.copytree(default_catalogue()["smoke-digits"].folder, own / "my-digits")
    file = own / "my-digits/competition.yaml"
    file.write_text(file.read_text().replace("id: smoke-digits", "id: my-digits"))
    words = (f"--competitions-dir={own}", "-c", "my-digits", f"--data-dir={tmp_path / 'data'}")
    task = exported(tmp_path / "tasks", *words) / "my-digits"
    rewards, _ = graded(task, task / "solution/submission.csv", tmp_path / "logs")
    assert rewards["gold"] == 1


def test_mistakes_give_one_line_errors(tmp_path: Path, smoke: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--to=harbor needs competitions" in refusal(capsys, "--to=harbor")
    assert "takes competitions, not run groups" in refusal(capsys, "--to=harbor", "reports/first")
    assert "'wealth' is not one of" in refusal(capsys, "--to=harbor", "-c", "smoke-digits", "--reward=wealth")
    again = refusal(capsys, "--to=harbor", "-c", "smoke-diabetes", "-o", str(smoke.parent))
    assert "exists already" in again
    assert "--to=atif needs a run group" in refusal(capsys, "--to=atif")
    assert "-c (--competition-id), --cpus: only for competitions" in refusal(
        capsys, "--to=atif", "-c", "smoke-digits", "--cpus=2", "reports/first"
    )
    assert "--reward has no effect" in refusal(capsys, "--to=atif", "--reward=medal", "reports/first")
    (tmp_path / "file").write_text("")
    assert "cannot be" in refusal(capsys, "--to=harbor", "-c", "smoke-digits", "-o", str(tmp_path / "file"))


def test_a_failed_export_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(wheel, "write_wheel", full)
    assert main(["export", "--to=harbor", "-o", str(tmp_path / "tasks"), "-c", "smoke-digits"]) == 2
    assert list((tmp_path / "tasks").iterdir()) == []


@pytest.mark.parametrize("text", ['quote " and \\', "line\nbreak", "tab\t", "\x7f\x01", "ünï ✓ 𝄞"])
def test_strings_survive_toml(text: str) -> None:
    assert tomllib.loads(to_toml({"task": {"name": text, "list": [text]}})) == {"task": {"name": text, "list": [text]}}


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A bucket with real data of a competition."""
    folder = tmp_path_factory.mktemp("pushed")
    real_store(folder / "data")
    with running_s3(folder) as (_, port), pytest.MonkeyPatch.context() as patch:
        for name, value in s3_environment(port).items():
            patch.setenv(name, value)
        make_bucket("prepared")
        words = ["s3://prepared/mlebench", "-c", "spaceship-titanic", f"--data-dir={folder / 'data'}"]
        assert main(["push", *words]) == 0
        yield "s3://prepared/mlebench"


def pulling(folder: Path, url: str, *words: str) -> Path:
    """A task that pulls its data; the local data folder stays empty."""
    tasks = exported(folder / "tasks", *titanic(folder), f"--data-source={url}", *words)
    (task,) = tasks.iterdir()
    assert not (folder / "data").exists()
    return task


def test_a_task_can_pull_its_data(tmp_path: Path, pushed: str, capsys: pytest.CaptureFixture[str]) -> None:
    task = pulling(tmp_path, pushed)
    assert f"containers pull it from {pushed}" in capsys.readouterr().out
    assert not [path for path in task.rglob("*.csv") if path.is_file()], "neither data nor answers"
    services = json.loads((task / "environment/docker-compose.yaml").read_text())["services"]
    assert services["main"].keys() == {"depends_on", "volumes"}, "the agent's container gets no credentials"
    assert services["main"]["volumes"] == ["data:/home/data:ro"]
    assert "AWS_SECRET_ACCESS_KEY" in services["data"]["environment"]
    secret = KEYS["AWS_SECRET_ACCESS_KEY"].encode()
    assert not [path for path in task.rglob("*") if path.is_file() and secret in path.read_bytes()]
    wanted = json.loads(services["data"]["command"][3])
    (tmp_path / "public").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLEBENCH_DATA_SOURCE", pushed)
        assert fetch.main(wanted, tmp_path / "public") == 0
    assert sorted(path.name for path in (tmp_path / "public").iterdir()) == [
        "description.md", "sample_submission.csv", "test.csv", "train.csv"
    ]  # fmt: skip


def test_the_verifier_pulls_the_answers(tmp_path: Path, pushed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = pulling(tmp_path, pushed, "--reward=milestones")
    (line,) = [line for line in (task / "tests/test.sh").read_text().splitlines() if "fetch.py" in line]
    wanted = json.loads(shlex.split(line)[3])
    monkeypatch.setenv("MLEBENCH_DATA_SOURCE", pushed)
    (task / "tests/data/prepared").mkdir()
    assert fetch.main(wanted, task / "tests/data/prepared") == 0
    assert [path.name for path in (task / "tests/data/prepared/public").iterdir()] == ["sample_submission.csv"]
    answers = task / "tests/data/prepared/private/test.csv"
    rewards, _ = graded(task, answers, tmp_path / "logs")
    assert rewards["valid"] == rewards["gold"] == 1


def test_data_replaced_after_the_export_is_rejected(
    tmp_path: Path, pushed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = pulling(tmp_path, pushed)
    services = json.loads((task / "environment/docker-compose.yaml").read_text())["services"]
    wanted = json.loads(services["data"]["command"][3]) | {"digest": "0" * 64}
    monkeypatch.setenv("MLEBENCH_DATA_SOURCE", pushed)
    assert fetch.main(wanted, tmp_path) == 1
    assert "has other data than when the task was exported" in capsys.readouterr().err


def test_agents_need_no_access_to_the_private_prefix(
    tmp_path: Path, pushed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials for the public prefix are enough: nothing private is requested."""
    task = pulling(tmp_path, pushed)
    services = json.loads((task / "environment/docker-compose.yaml").read_text())["services"]
    asked: list[str] = []
    blocks = Storage.blocks

    def noted(self: Storage, name: str, *arguments: Any, **options: Any) -> Any:
        asked.append(name)
        return blocks(self, name, *arguments, **options)

    monkeypatch.setattr(Storage, "blocks", noted)
    monkeypatch.setenv("MLEBENCH_DATA_SOURCE", pushed)
    (tmp_path / "public").mkdir()
    assert fetch.main(json.loads(services["data"]["command"][3]), tmp_path / "public") == 0
    assert "spaceship-titanic/prepared/public/train.csv" in asked
    assert not [name for name in asked if "private" in name]


def test_the_wheel_of_a_pulling_task_supports_remote_data(tmp_path: Path, pushed: str) -> None:
    task = pulling(tmp_path, pushed)
    wheels = [task / part / "mlebench" / wheel.NAME for part in ("environment", "tests")]
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    with zipfile.ZipFile(wheels[0]) as archive:
        names = archive.namelist()
        (entries,) = (archive.read(name) for name in names if name.endswith("entry_points.txt"))
    assert b"s3 = pytest_mlebench.extras.remote_data.source:RemoteSource" in entries
    assert not [name for name in names if "/extras/" in name and "/remote_data/" not in name and "__init__" not in name]
    for part in ("environment", "tests"):
        assert "s3fs==" in (task / part / "mlebench/requirements.txt").read_text()


def test_an_obfuscated_task_names_its_competition_only_to_the_verifier(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("-c", "spaceship-titanic", f"--data=twin:{SEED}:micro", f"--data-dir={tmp_path / 'data'}")
    (task,) = exported(tmp_path / "tasks", *words, "--description=obfuscated").iterdir()
    assert re.fullmatch(r"competition-[0-9a-f]{8}", task.name)
    assert f"{task}: spaceship-titanic" in capsys.readouterr().out
    seen = [task / "task.toml", task / "instruction.md", *(task / "environment").rglob("*")]
    for path in seen:
        text = path.name.encode() + (path.read_bytes() if path.is_file() else b"")
        assert b"titanic" not in text.lower(), path
    hidden = (default_catalogue()["spaceship-titanic"]).obfuscated_description.read_text()
    assert (task / "environment/data/description.md").read_text() == hidden
    assert hidden in (task / "instruction.md").read_text()
    checker, data = task / "environment/mlebench/checker", task / "environment/data"
    assert check.main(str(data / "sample_submission.csv"), checker, data) == 0
    rewards, noted = graded(task, task / "solution/submission.csv", tmp_path / "logs")
    assert rewards["bronze"] == 1
    assert (noted["task"]["competition_id"], noted["task"]["description"]) == ("spaceship-titanic", "obfuscated")


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_checker_code_does_not_name_the_competition(version: str) -> None:
    for competition in default_catalogue(version=version):
        if competition.split == "smoke":
            continue
        for path in competition.files:
            if path.suffix == ".py" and path.name != "prepare.py":
                code = without_comments(path.read_text()).lower()
                id = competition.id.lower()
                assert not [name for name in (id, id.replace("-", " "), competition.title.lower()) if name in code], (
                    path
                )


def test_obfuscated_real_data_is_pulled_and_not_mounted(
    tmp_path: Path, pushed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    real_store(tmp_path / "real")
    words = ("-c", "spaceship-titanic", f"--data-dir={tmp_path / 'real'}", "--description=obfuscated")
    assert "cannot mount real data" in refusal(capsys, "--to=harbor", "-o", str(tmp_path / "mounted"), *words)
    assert list((tmp_path / "mounted").iterdir()) == []
    task = pulling(tmp_path, pushed, "--description=obfuscated")
    built = [path for path in (task / "environment").rglob("*") if path.name != "docker-compose.yaml"]
    assert not [path for path in built if path.is_file() and b"titanic" in path.read_bytes().lower()]
    assert (task / "environment/mlebench/description.md").is_file()


def test_a_local_folder_is_rejected_as_a_source_for_containers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real_store(tmp_path / "data")
    url = f"file://{tmp_path / 'pushed'}"
    assert main(["push", url, "-c", "spaceship-titanic", f"--data-dir={tmp_path / 'data'}"]) == 0
    words = ("-c", "spaceship-titanic", "-o", str(tmp_path / "tasks"), f"--data-source={url}")
    assert "containers of a task cannot reach it" in refusal(capsys, "--to=harbor", *words)


@pytest.mark.full
def test_twins_of_third_parties_have_a_reference_solution(tmp_path: Path) -> None:
    own = tmp_path / "competitions"
    shutil.copytree(default_catalogue()["spaceship-titanic"].folder, own / "my-ship")
    file = own / "my-ship/competition.yaml"
    file.write_text(file.read_text().replace("id: spaceship-titanic", "id: my-ship"))
    words = (f"--competitions-dir={own}", "-c", "my-ship", "--data=twin:7:micro", f"--data-dir={tmp_path / 'data'}")
    task = exported(tmp_path / "tasks", *words) / "my-ship"
    rewards, _ = graded(task, task / "solution/submission.csv", tmp_path / "logs")
    assert rewards["valid"] == rewards["bronze"] == 1


@pytest.mark.full
def test_links_written_by_third_party_code_instead_of_a_solution_are_not_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "competitions"
    shutil.copytree(default_catalogue()["spaceship-titanic"].folder, own / "my-ship")
    file = own / "my-ship/competition.yaml"
    file.write_text(file.read_text().replace("id: spaceship-titanic", "id: my-ship"))
    with (own / "my-ship/twin.py").open("a") as code:
        code.write("\n\n_make = make\n\n\ndef make(raw, rng, size):\n")
        code.write("    (raw.parent / 'solution.csv').symlink_to(raw.parent / 'other')\n")
        code.write("    return _make(raw, rng, size)\n")
    words = (f"--competitions-dir={own}", "-c", "my-ship", "--data=twin:7:micro", f"--data-dir={tmp_path / 'data'}")
    assert main(["export", "--to=harbor", "-o", str(tmp_path / "tasks"), *words]) != 0
    assert "created the symbolic link solution.csv" in capsys.readouterr().err
    assert list((tmp_path / "tasks").iterdir()) == []
