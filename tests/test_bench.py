"""``Bench``, the Python interface, leaves a run group on disk like that of a pytest session."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_mlebench import Bench, DataError, UsageError
from pytest_mlebench.io.extensions import extensions
from pytest_mlebench.io.progress import WarningNote
from pytest_mlebench.records.outcome import Outcome
from pytest_mlebench.records.record import MANIFEST, REPORT

DIABETES = "smoke-diabetes"
TOYS = Path(__file__).parent / "toys"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.chdir(tmp_path)
    return Bench(sandbox="local", data_dir=tmp_path / "data")


def test_a_run_leaves_a_complete_group(bench: Bench, tmp_path: Path) -> None:
    group = bench.run("dummy", DIABETES, seeds=2, group="mine")
    assert [(own.seed, own.outcome) for own in group.records] == [(0, Outcome.no_medal), (1, Outcome.no_medal)]
    assert group.folder == tmp_path / "reports" / "mine"
    assert {MANIFEST, REPORT, "metadata.json", "grading_report.json"} <= {path.name for path in group.folder.iterdir()}
    assert json.loads((group.folder / MANIFEST).read_text())["sessions"][0]["ended_at"]
    assert bench.group("mine").records == group.records
    assert [own.agent for own in bench.report("mine").summaries] == ["dummy"]


def test_folders_may_have_names_that_are_not_utf8(tmp_path: Path) -> None:
    folder = tmp_path / "caf\udce9"
    group = Bench(sandbox="local", data_dir=folder / "data", runs_dir=folder).run("dummy", DIABETES, group="mine")
    assert [record.outcome for record in group.records] == [Outcome.no_medal]


def test_finished_runs_are_not_run_again(bench: Bench) -> None:
    (first,) = bench.run("dummy", DIABETES, group="mine").records
    both = bench.run("dummy", [DIABETES, "smoke-digits"], group="mine").records
    assert first in both and len(both) == 2


def test_each_run_is_done_once(tmp_path: Path) -> None:
    bench = Bench(sandbox="local", data_dir=tmp_path / "data", runs_dir=tmp_path, seeds=2)
    assert [own.seed for own in bench.run("dummy", [DIABETES, DIABETES], group="default").records] == [0, 1]
    group = bench.run("dummy", [DIABETES, DIABETES], seeds=[1, 1], group="listed")
    assert [own.seed for own in group.records] == [1] and len([*group.folder.glob("*/run.json")]) == 1


def test_a_group_is_named_as_on_the_command_line(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    bench.run("dummy", DIABETES, group="mine")
    assert bench.run("dummy", DIABETES, seeds=2, group="last").folder == tmp_path / "reports" / "mine"
    assert bench.run("dummy", DIABETES, group="~/own").folder == tmp_path / "home" / "own"


def test_only_failures_of_these_outcomes_are_rerun(tmp_path: Path) -> None:
    shared: dict[str, Any] = {"data_dir": tmp_path / "data", "runs_dir": tmp_path, "agents_dir": TOYS / "agents"}
    shared |= {"sandbox": "local", "trust_agent": "toy/crashes"}
    (first,) = Bench(**shared).run("toy/crashes", DIABETES, group="mine").records
    for outcomes, is_rerun in (("timed_out", False), ("crashed", True)):
        (again,) = Bench(**shared, retry_failed=outcomes).run("toy/crashes", DIABETES, group="mine").records
        assert (again.run_id != first.run_id) is is_rerun


def test_an_unusable_competition_does_not_stop_the_others(tmp_path: Path) -> None:
    warnings: list[Any] = []
    bench = Bench(sandbox="local", data_dir=tmp_path / "data", prepare="never", reporter=warnings.append)
    bench.prepare(DIABETES)
    group = bench.run("dummy", ["smoke-digits", DIABETES], seeds=2, group=tmp_path / "mine")
    assert [(own.competition_id, own.seed) for own in group.records] == [(DIABETES, 0), (DIABETES, 1)]
    (text,) = [event.text for event in warnings if isinstance(event, WarningNote)]
    assert text.startswith("smoke-digits is skipped: smoke-digits is not prepared; run: mlebench prepare")
    with pytest.raises(DataError, match="smoke-digits is not prepared"):
        bench.run("dummy", ["smoke-digits", DIABETES], seeds=2, group=tmp_path / "mine")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_cost": 1, "llm_gateway": "off"}, "--max-cost needs the gateway: leave out --llm-gateway=off"),
        ({"runtime": "runsc"}, "--runtime is for containers: leave out --sandbox=local"),
        ({"retry_failed": "all"}, "--retry-failed needs the run group to retry"),
        ({"real_data": True}, "--real-data checks graders"),
        ({"min_medal": "gold"}, "--min-medal needs a pytest session, which Bench.run does not start"),
        ({"resume": "last", "detach": True}, "--resume and --detach need a pytest session"),
        ({"max_parallel": 2}, "--max-parallel needs a pytest session"),
        ({"otlp": "http://localhost:1", "otlp_content": True}, "--otlp and --otlp-content need a pytest session"),
    ],
)
def test_an_option_that_a_run_would_ignore_is_rejected(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    bench = Bench(sandbox="local", data_dir=tmp_path / "data", runs_dir=tmp_path / "reports", gpus=0, **options)
    for same in (bench, bench.with_settings(cpus=1.0)):
        with pytest.raises(UsageError) as caught:
            same.run("dummy", DIABETES)
        assert str(caught.value).startswith(message)
    assert not (tmp_path / "reports").exists()


@pytest.mark.full
@pytest.mark.parametrize("version", [1, 2])
def test_pytest_resumes_a_group_of_bench(tmp_path: Path, version: int) -> None:
    bench = Bench(sandbox="local", data_dir=tmp_path / "data", runs_dir=tmp_path / "reports", bench_version=version)
    bench.run("dummy", DIABETES, group="mine", seeds=[12_345])
    command = [sys.executable, "-m", "pytest", "--resume=mine", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 run of this group is finished" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0 and "1 no medal" in done.stdout, done.stdout + done.stderr


def test_a_submission_is_graded_against_prepared_answers(bench: Bench) -> None:
    (dataset,) = bench.prepare(DIABETES)
    report = bench.grade(DIABETES, dataset.sample_submission)
    assert report.valid_submission and report.score == pytest.approx(72.61873)


def test_all_data_is_prepared_before_the_first_grade(bench: Bench) -> None:
    (done,) = bench.prepare_all(bench.competitions("smoke")[1:2], jobs=1)
    assert done.error is None and bench.store.dataset(done.competition).is_prepared
    sample = bench.store.dataset(done.competition).sample_submission
    grades = bench.grade_all([(DIABETES, sample), ("smoke-digits", sample)])
    assert next(grades).valid_submission and bench.store.dataset(bench.catalogue["smoke-digits"]).is_prepared
    assert not next(grades).valid_submission


def test_records_that_cannot_be_read_are_reported(bench: Bench) -> None:
    group = bench.run("dummy", DIABETES, group="mine")
    (group.folder / group.records[0].run_id / "run.json").write_text("{")
    events: list[Any] = []
    bench.reporter = events.append
    (summary,) = bench.report("mine", pad_missing=True, by_category=True).summaries
    assert summary.any_medal.mean == 0
    assert [type(event) for event in events] == [WarningNote]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_cots": 1}, "max_cots is not an option of Bench; did you mean max_cost"),
        ({"max_cost": "lots"}, "max_cost: 'lots' is not a positive number"),
        ({"sandbox": "vm"}, "sandbox: 'vm' is not one of auto, docker, podman, local"),
        ({"time_limit": True}, "time_limit: True is not a single value"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Bench(**options)
    assert str(caught.value).startswith(message)


def test_several_values_can_be_a_list() -> None:
    assert Bench(gpus=1, gpu_ids=[0, "GPU-a"]).settings.gpu_ids == Bench(gpus=1, gpu_ids="0,GPU-a").settings.gpu_ids


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"competition": "smoke-digit"}, "smoke-digits"),
        ({}, "name a competition or a split"),
        ({"competition": DIABETES, "split": "smoke"}, "not both"),
        ({"competition": DIABETES, "seeds": 0}, "seeds: at least one is needed"),
        ({"competition": DIABETES, "seeds": -(10**5000)}, "seeds: at least one is needed"),
        ({"competition": DIABETES, "seeds": 10**5000}, "seeds: a run group gets at most 10,000 in one call"),
        ({"competition": DIABETES, "seeds": count()}, "seeds: a run group gets at most 10,000 in one call"),
        ({"competition": DIABETES, "seeds": [1.5]}, "the seed must be an integer of at least 0, not 1.5"),
        ({"competition": DIABETES, "seeds": "3"}, "the seed must be an integer of at least 0, not '3'"),
        ({"competition": DIABETES, "seeds": [0, -1]}, "the seed must be an integer of at least 0, not -1"),
        ({"competition": DIABETES, "group": "a\0b"}, r"'a\\x00b' cannot be the name of a run group"),
        ({"competition": DIABETES, "group": "last"}, "unknown run group .* 'last'"),
        ({"competition": DIABETES, "group": "~nobody-of-this-name/a"}, "no home folder ~nobody-of-this-name"),
    ],
)
def test_a_wrong_call_is_explained(bench: Bench, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        bench.run("dummy", **arguments)
    assert not Path("reports").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"agent": None}, r"agent must be of type Agent, not NoneType \(or a string with its id\)"),
        ({"agent": ["dummy"]}, "agent must be of type Agent, not list"),
        ({"competition": 3}, r"competition must be of type Competition, not int \(or a string with its id\)"),
        ({"competition": [DIABETES, None, 3]}, "competition must be of type Competition, not int"),
        ({"competition": None, "split": 3}, r"split must be of type str, not int \(a name, for example 'lite'\)"),
        ({"seeds": 1.5}, "seeds must be a whole number or a list of whole numbers, not 1.5"),
        ({"seeds": True}, "seeds must be a whole number or a list of whole numbers, not True"),
        ({"group": 3}, "group must be a name or a path, not 3"),
        ({"group": b"mine"}, "group must be a name or a path, not b'mine'"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(bench: Bench, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{message}"):
        bench.run(**{"agent": "dummy", "competition": DIABETES, **arguments})
    assert not Path("reports").exists()


def test_other_methods_and_the_object_itself_name_an_argument_of_a_wrong_type(bench: Bench) -> None:
    wrong: Any = 3
    for call in (lambda: bench.prepare(wrong), lambda: bench.grade(wrong, "submission.csv")):
        with pytest.raises(TypeError, match=r"^competition must be of type Competition, not int"):
            call()
    with pytest.raises(TypeError, match=r"^split must be of type str, not int"):
        bench.competitions(wrong)
    with pytest.raises(TypeError, match=r"^settings must be of type Settings, not int"):
        Bench(settings=wrong)
    with pytest.raises(UsageError, match=r"^workers must be a number of at least 1, not 'x'"):
        Bench(workers=cast("int", "x"))


@pytest.mark.parametrize("name", ["", ".", "./", "..", "../..", "a/..", "/", "a/../..", "x" * 201, "a\nb"])
def test_the_name_of_a_run_group_is_that_of_a_folder(bench: Bench, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a run group"):
        bench.run("dummy", DIABETES, group=name)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_folder_with_other_files_does_not_become_a_run_group(bench: Bench, tmp_path: Path) -> None:
    project, runs = tmp_path / "project", tmp_path / "runs"
    project.mkdir()
    (project / "test_own.py").write_text("def test_own(): pass\n")
    finished = bench.run("dummy", DIABETES, group=runs / "finished").folder
    (tmp_path / "linked").symlink_to(finished)
    for place, message in (
        (project, "it contains other files, such as test_own.py"),
        (runs, "it contains other files, such as finished"),
        (tmp_path, "it contains other files"),
        (finished / "inner", f"is in the run group {finished}"),
        (next(finished.glob("*/run.json")).parent, f"is in the run group {finished}"),
        (tmp_path / "linked/inner", f"is in the run group {finished}"),
    ):
        with pytest.raises(UsageError, match=message):
            bench.run("dummy", DIABETES, group=place)
    assert [path.name for path in project.iterdir()] == ["test_own.py"] and not (tmp_path / MANIFEST).exists()


def test_an_empty_folder_or_one_that_a_killed_session_left_becomes_a_run_group(bench: Bench, tmp_path: Path) -> None:
    (left := tmp_path / "left").mkdir()
    for name in (".lock", ".workers", ".manifest.json.123", ".conftest.py.4", ".gitkeep", "pytest.log"):
        (left / name).touch()
    assert bench.run("dummy", DIABETES, group=left).records


def test_the_current_folder_does_not_become_a_run_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty := tmp_path / "empty").mkdir()
    monkeypatch.chdir(empty)
    with pytest.raises(UsageError, match="is the current folder"):
        Bench(sandbox="local", data_dir=tmp_path / "data").run("dummy", DIABETES, group=empty)
    assert not [*empty.iterdir()]


def test_another_distribution_adds_a_method(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {
        "gone": ("theirs:gone", "AttributeError: module 'theirs' has no attribute 'gone'"),
        "unfinished": ("unfinished:a", "SyntaxError: '(' was never closed (unfinished.py, line 1)"),
        "raising": ("raising:a", "RuntimeError: needs a licence"),
        "inside": ("raising.inside:a", "RuntimeError: needs a licence"),
    }
    (tmp_path / "theirs.py").write_text("def count(bench, split):\n    return len(bench.competitions(split))\n")
    (tmp_path / "unfinished.py").write_text("a = (\n")
    (tmp_path / "raising").mkdir()
    (tmp_path / "raising/__init__.py").write_text("raise RuntimeError('needs a licence')\n")
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    entries = "".join(f"{name} = {value}\n" for name, (value, _) in broken.items())
    (info / "entry_points.txt").write_text(f"[mlebench.methods]\ncount = theirs:count\n{entries}")
    monkeypatch.syspath_prepend(str(tmp_path))
    extensions.cache_clear()
    try:
        assert bench.count("smoke") == 3
        for name, (_, error) in broken.items():
            with pytest.raises(UsageError) as caught:
                getattr(bench, name)
            assert str(caught.value) == f"mlebench.methods: {name} of theirs cannot be loaded: {error}"
    finally:
        extensions.cache_clear()
    with pytest.raises(AttributeError, match="Bench has no attribute 'nothing'"):
        bench.nothing()


def test_bench_imports_nothing_heavy_before_it_is_used() -> None:
    program = (
        "import sys; from pytest_mlebench import Bench; Bench()\n"
        "print('pandas' in sys.modules, 'docker' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.full
def test_regrading_a_group_leaves_its_records(bench: Bench) -> None:
    group = bench.run("dummy", DIABETES, group="mine")
    result = bench.regrade("mine")
    assert [own.run_id for own in result.runs] == [group.records[0].run_id] and not result.changed
    (written,) = group.folder.glob("regraded-v1-*.json")
    assert json.loads(written.read_text())["run_group"] == "mine"
    assert bench.group("mine").records == group.records
