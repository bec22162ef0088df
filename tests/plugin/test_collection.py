"""What is collected, how it is named and selected, and how mistakes are reported."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from tests.plugin.collected import collected

Collect = Callable[..., list[str]]


@pytest.fixture
def collect(project: pytest.Pytester) -> Collect:
    """The node ids that a command line collects."""

    def run(*arguments: str) -> list[str]:
        result = project.runpytest_subprocess("--collect-only", "-q", "-p", "no:cacheprovider", *arguments)
        return collected(result)

    return run


@pytest.mark.full
def test_node_ids_name_competition_agent_and_seed(collect: Collect) -> None:
    assert collect("--agent=toy/gold", "--seeds=2", "competitions") == [
        "competitions/toy-parity/competition.yaml::toy/gold[seed=0]",
        "competitions/toy-parity/competition.yaml::toy/gold[seed=1]",
    ]


@pytest.mark.full
def test_without_an_agent_the_items_are_the_graders_checks(collect: Collect) -> None:
    names = [line.split("::")[1] for line in collect("competitions")]
    assert names == ["prepare", "scores", "rejections", "answers_stay_private"]


@pytest.mark.full
def test_agents_are_deduplicated_and_keep_their_order(collect: Collect) -> None:
    found = collect("--agent=toy/silver", "--agent=toy/gold", "--agent=toy/silver", "competitions")
    assert [line.split("::")[1] for line in found] == ["toy/silver[seed=0]", "toy/gold[seed=0]"]


@pytest.mark.full
def test_a_split_without_a_path_collects_the_bundled_competitions_from_any_project(collect: Collect) -> None:
    ids = {line.split("/")[1] for line in collect("--split=smoke")}
    assert ids == {c.id for c in default_catalogue().split("smoke")}
    assert ids == {"smoke-digits", "smoke-breast-cancer", "smoke-diabetes"}


@pytest.mark.full
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["in one process", "with xdist"])
def test_a_split_without_a_path_excludes_the_projects_tests(project: pytest.Pytester, workers: tuple[str, ...]) -> None:
    project.makepyfile("def test_own(): pass")
    result = project.runpytest_subprocess("--split=smoke", "-k", "digits and prepare", *workers)
    result.assert_outcomes(passed=1, deselected=0 if workers else 11)


@pytest.mark.full
def test_a_bundled_competition_is_found_by_its_node_id_from_any_project(collect: Collect) -> None:
    (found,) = collect("competitions/smoke-digits/competition.yaml::scores")
    assert found == "competitions/smoke-digits/competition.yaml::scores"


@pytest.mark.full
def test_a_split_file_chooses_competitions(project: pytest.Pytester, collect: Collect) -> None:
    (project.path / "mine.txt").write_text("# two\nsmoke-digits\n\nspaceship-titanic\n")
    assert {line.split("/")[1] for line in collect("--split=mine.txt")} == {"smoke-digits", "spaceship-titanic"}
    assert collect("--split=mine.txt", "competitions/toy-parity") == []


@pytest.mark.full
def test_markers_select_splits_and_categories(project: pytest.Pytester, collect: Collect) -> None:
    (project.path / "mine.txt").write_text("smoke-digits\nspaceship-titanic\nspooky-author-identification\n")
    chosen = ("--split=mine.txt", "--strict-markers")
    assert {line.split("/")[1] for line in collect(*chosen, "-m", "dev")} == {"spaceship-titanic"}
    assert {line.split("/")[1] for line in collect(*chosen, "-m", "lite")} == {"spooky-author-identification"}
    found = collect(*chosen, "-m", "text_classification or smoke")
    assert {line.split("/")[1] for line in found} == {"smoke-digits", "spooky-author-identification"}


@pytest.mark.parametrize(
    ("category", "marker"), [("???", "category_"), ("Parametrize", "category_parametrize"), ("Skip", "category_skip")]
)
def test_a_category_is_never_a_marker_with_another_meaning(
    project: pytest.Pytester, collect: Collect, category: str, marker: str
) -> None:
    file = project.path / "competitions/toy-parity/competition.yaml"
    file.write_text(re.sub("^category: .*$", f"category: {category!r}", file.read_text(), flags=re.M))
    assert len(collect("competitions", "--strict-markers", "-m", marker)) == 4


def test_every_bundled_competition_is_collected(collect: Collect) -> None:
    assert len({line.split("/")[1] for line in collect("--split=all")}) == 75
    (found,) = {line.split("/")[1] for line in collect("--split=all", "-m", "category_3d and high", "-k", "vehicles")}
    assert found == "3d-object-detection-for-autonomous-vehicles"


@pytest.mark.full
def test_k_picks_one_competition(collect: Collect) -> None:
    found = collect("--agent=toy/gold", "--split=smoke", "-k", "diabetes")
    assert found == ["competitions/smoke-diabetes/competition.yaml::toy/gold[seed=0]"]


@pytest.mark.full
@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["in one process", "with xdist"])
@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "smoke-digts",
            "-k 'smoke-digts' matches nothing in 3 competitions; did you mean smoke-digits*?*mlebench list*",
        ),
        ("brest", "-k 'brest' matches nothing in 3 competitions; did you mean breast? *"),
        ("qqq", "-k 'qqq' matches nothing in 3 competitions; for example: smoke-breast-cancer, *"),
    ],
)
def test_a_name_without_matches_gets_suggestions(
    project: pytest.Pytester, name: str, line: str, workers: tuple[str, ...]
) -> None:
    result = project.runpytest_subprocess("--split=smoke", "-k", name, *workers)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines([line])


@pytest.mark.full
def test_a_marker_without_matches_gets_suggestions_in_other_projects_too(project: pytest.Pytester) -> None:
    project.makepyfile("def test_other(): pass")
    assert "matches no competition; did you mean tabular" in project.runpytest_subprocess("-m", "Tabular").stdout.str()
    assert "matches no competition" not in project.runpytest_subprocess("-m", "slow").stdout.str()


@pytest.mark.full
def test_a_marker_without_matches_gets_suggestions_and_markers_are_listed(
    project: pytest.Pytester,
) -> None:
    result = project.runpytest_subprocess("--split=smoke", "-m", "Tabular")
    result.stdout.fnmatch_lines(["-m 'Tabular' matches no competition; did you mean tabular*?"])
    listed = project.runpytest_subprocess("--markers").stdout
    listed.fnmatch_lines_random(["@pytest.mark.tabular: competitions of Tabular", "@pytest.mark.lite: *"])


@pytest.mark.full
@pytest.mark.parametrize(
    ("chosen", "ids"),
    [
        (("-k", "spaceship"), {"spaceship-titanic"}),  # of dev
        (("-k", "diabetes or spaceship"), {"smoke-diabetes", "spaceship-titanic"}),
        (("-k", "icml-2013 or spaceship"), {"the-icml-2013-whale-challenge-right-whale-redux"}),
        (("-m", "smoke"), {"smoke-breast-cancer", "smoke-diabetes", "smoke-digits"}),
    ],
)
def test_without_a_split_k_and_m_filter_the_benchmark_then_the_other_competitions(
    chosen: tuple[str, str], ids: set[str], collect: Collect
) -> None:
    assert {line.split("/")[1] for line in collect("--agent=toy/gold", *chosen)} == ids


@pytest.mark.full
def test_without_a_split_other_competitions_are_excluded_if_the_benchmark_matches(collect: Collect) -> None:
    found = {line.split("/")[1] for line in collect("--agent=toy/gold", "-k", "not spooky")}
    assert found == {competition.id for competition in default_catalogue().split("all")} - {
        "spooky-author-identification"
    }


@pytest.mark.full
def test_last_failed_runs_only_what_failed(project: pytest.Pytester) -> None:
    arguments = ("competitions", "--agent=toy/gold", "--agent=toy/crashes", "--agent=toy/nothing")
    assert "1 gold" in project.runpytest_subprocess(*arguments).outlines[-1]
    again = project.runpytest_subprocess(*arguments, "--lf")
    assert "gold" not in again.outlines[-1]
    assert "1 crashed" in again.outlines[-1] and "1 no submission" in again.outlines[-1]


@pytest.mark.full
def test_x_stops_at_the_first_failed_run(project: pytest.Pytester) -> None:
    result = project.runpytest_subprocess("competitions", "--agent=toy/crashes", "--agent=toy/gold", "-x")
    assert "1 crashed" in result.outlines[-1] and "gold" not in result.outlines[-1]


@pytest.mark.full
def test_the_plugin_can_be_disabled(project: pytest.Pytester) -> None:
    project.makepyfile("def test_nothing(): pass")
    project.makeini("[pytest]")
    result = project.runpytest_subprocess("-p", "no:mlebench")
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("testpaths", ["", "testpaths = tests competitions"])
def test_a_split_in_the_ini_file_selects_only_competitions(project: pytest.Pytester, testpaths: str) -> None:
    shutil.copytree(project.path / "competitions/toy-parity", project.path / "competitions/toy-other")
    file = project.path / "competitions/toy-other/competition.yaml"
    file.write_text(file.read_text().replace("id: toy-parity", "id: toy-other").replace("split: smoke", "split: other"))
    (project.path / "tests").mkdir()
    (project.path / "tests/test_own.py").write_text("def test_own(): pass\n")
    with (project.path / "tox.ini").open("a") as ini:
        ini.write(f"\nmlebench_competitions_dir = competitions\nmlebench_split = other\n{testpaths}\n")
    found = collected(project.runpytest_subprocess("--co", "-q"))
    assert {name.partition("::")[0] for name in found} == {
        "tests/test_own.py",
        "competitions/toy-other/competition.yaml",
    }
    found = collected(project.runpytest_subprocess("--co", "-q", "--agent=toy/gold"))
    assert found == ["competitions/toy-other/competition.yaml::toy/gold[seed=0]"]
    used = project.runpytest_subprocess("--co", "-q", "--time-limit=1m", "tests")
    assert collected(used) == ["tests/test_own.py::test_own"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--agent=toy/glod"], "*unknown agent 'toy/glod'; did you mean toy/gold*"),
        (["--split=lowe"], "*unknown split 'lowe'; did you mean low*"),
        (["--split=none.txt"], "*split file none.txt does not exist*"),
        (["--split=typo.txt"], "*unknown competition 'spaceship-titanik'; did you mean spaceship-titanic*"),
        (
            ["competitions/smoke-digit/competition.yaml"],
            "*unknown competition 'smoke-digit'; did you mean smoke-digits*",
        ),
        (["--agent=toy/gold", "--time-limit=soon"], "*'soon' is not a duration; write for example 24h, 90m or 30s*"),
        (["--agent=toy/gold", "--memory=much"], "*'much' is not a size*"),
        (["--agent=toy/gold", "--seeds=0"], "*--seeds: '0' is not a whole number of at least 1*"),
        (["--agent=toy/gold", "--run-group=.a"], "*--run-group: '.a' must not start with a dot*"),
        *(
            (
                ["--agent=toy/gold", "competitions/toy-parity", f"--run-group={name}"],
                "* is not a run group: it contains *",
            )
            for name in ("./", "../{folder}", "competitions/..")
        ),
        (["--agent=toy/gold", "--runs-dir=typo.txt"], "*--runs-dir: */typo.txt is not a folder*"),
        (["--agent=toy/gold", "--agents-dir=nowhere"], "*--agents-dir: */nowhere is not a folder*"),
    ],
)
def test_an_invalid_option_gives_a_one_line_error_and_runs_nothing(
    project: pytest.Pytester, arguments: list[str], message: str
) -> None:
    (project.path / "typo.txt").write_text("spaceship-titanik\n")
    result = project.runpytest_subprocess(*(text.format(folder=project.path.name) for text in arguments))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert "Traceback" not in result.stderr.str() + result.stdout.str()
    assert not (project.path / "reports").exists()


@pytest.mark.full
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("leaderboard: [", "*is not valid YAML*"),
        ("leaderboard: {}", "*lacks id*"),
        ("leaderboard:\n- 1", "*lacks id*"),
    ],
)
def test_a_broken_competition_is_a_readable_collection_error(project: pytest.Pytester, text: str, message: str) -> None:
    (project.path / "competitions/toy-parity/competition.yaml").write_text(text)
    result = project.runpytest_subprocess("competitions")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])
    assert "Traceback" not in result.stdout.str()


def test_collection_imports_only_the_catalogue(project: pytest.Pytester) -> None:
    others = {"pandas", "docker", "kaggle", "sklearn", "numpy", "scipy", "rapidfuzz"}
    packages = "|".join(("agents", "data", "grading", "llm", "results", "runs", "sandbox"))
    own = rf"(?!pytest_mlebench\.runs(\.guard)?$)pytest_mlebench\.({packages})\b"  # the guard imports nothing
    program = (
        "import re, sys, pytest\n"
        "pytest.main(['--collect-only', '-q', '--split=all'])\n"
        f"print('imported', sorted(name for name in sys.modules if name in {others} or re.match({own!r}, name)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=project.path, check=True)
    assert done.stdout.splitlines()[-1] == "imported []"


def test_a_conftest_next_to_competitions_is_used_with_a_split(project: pytest.Pytester) -> None:
    folder = project.path / "competitions"
    (folder / "conftest.py").write_text("def pytest_itemcollected(item): print('in', item.name)\n")
    (folder / "toy-parity/test_other.py").write_text("raise RuntimeError('it was imported')\n")
    result = project.runpytest_inprocess("--competitions-dir=competitions", "--split=smoke", "--collect-only")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*in prepare", "*CompetitionItem prepare*"])


@pytest.mark.full
def test_reports_of_other_suites_keep_their_columns(project: pytest.Pytester) -> None:
    project.makepyfile("def test_nothing(): pass")
    project.runpytest_subprocess(
        "--html=own.html", "--self-contained-html", "test_reports_of_other_suites_keep_their_columns.py"
    )
    assert "Competition" not in (Path(project.path) / "own.html").read_text()
