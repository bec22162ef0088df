"""The fixtures in custom tests."""

from __future__ import annotations

import inspect
import textwrap

import pytest

from pytest_mlebench.plugin import fixtures, hooks
from pytest_mlebench.plugin.session import FIXTURES, FIXTURES_MODULE

pytestmark = pytest.mark.full


def test_marks_choose_competition_and_agent(project: pytest.Pytester) -> None:
    path = project.makepyfile("""
        import pytest

        @pytest.mark.competition("smoke-diabetes")
        def test_data(competition, dataset, grade_submission, tmp_path):
            assert competition.metric == "root_mean_squared_error"
            assert (dataset.public / "train.csv").is_file()
            assert grade_submission(dataset.sample_submission).valid_submission
            bad = tmp_path / "bad.csv"
            bad.write_text("id\\n")
            assert "column" in grade_submission(bad).error

        @pytest.mark.competition("smoke-digits")
        @pytest.mark.agent("toy/crashes")
        def test_run(run_agent, agent, sandbox, run_group):
            record = run_agent(seed=3)
            assert (record.outcome, record.seed, record.agent) == ("crashed", 3, agent.id)
            assert (run_group.folder / record.run_id / "run.json").is_file()
            assert sandbox.name == "local"
    """)
    result = project.runpytest_subprocess("-p", "no:cacheprovider", path)
    result.assert_outcomes(passed=2)
    assert not (project.path / "reports").exists()


def test_graded_submissions_have_the_sessions_limits(project: pytest.Pytester) -> None:
    path = project.makepyfile("""
        import pytest

        @pytest.mark.competition("smoke-diabetes")
        def test_limit(dataset, grade_submission):
            assert "at most 100 are read" in grade_submission(dataset.sample_submission).error
    """)
    project.runpytest_subprocess("-p", "no:cacheprovider", "--max-submission-size=100", path).assert_outcomes(passed=1)


def test_a_missing_or_invalid_mark_is_a_readable_error(project: pytest.Pytester) -> None:
    path = project.makepyfile("""
        import pytest

        def test_unmarked(competition): pass

        @pytest.mark.competition("smoke-digit")
        def test_unknown(competition): pass

        @pytest.mark.competition("spaceship-titanic")
        def test_no_data(dataset): pass
    """)
    result = project.runpytest_subprocess("-p", "no:cacheprovider", "--prepare=never", "-rs", path)
    result.assert_outcomes(errors=2, skipped=1)
    result.stdout.fnmatch_lines_random(
        [
            "*name the competition: @pytest.mark.competition(ID)*",
            "*unknown competition 'smoke-digit'; did you mean smoke-digits*",
            "*spaceship-titanic is not prepared; run: mlebench prepare -c spaceship-titanic *",
        ]
    )
    assert "Traceback" not in result.stdout.str()


def test_the_documented_example_works_and_uses_each_fixture(project: pytest.Pytester) -> None:
    example = textwrap.dedent((fixtures.__doc__ or "").partition("::\n")[2])
    names = [name for name, value in inspect.getmembers(fixtures) if isinstance(value, type(fixtures.competition))]
    assert tuple(names) == FIXTURES and len(names) == 10
    assert all(f"{name}," in example or f"{name})" in example for name in names)
    path = project.makepyfile(example)
    project.runpytest_subprocess("-p", "no:cacheprovider", path).assert_outcomes(passed=5)


@pytest.mark.full
def test_a_projects_fixtures_with_the_same_names_apply_to_its_own_tests(project: pytest.Pytester) -> None:
    names = ("agent", "sandbox", "dataset", "competition", "data_store", "run_agent", "run_group", "synthetic_dataset")
    assert {*names} < {*FIXTURES} < {*vars(hooks)} and fixtures.__name__ == FIXTURES_MODULE
    project.makeconftest(
        "import pytest\n" + "".join(f"@pytest.fixture\ndef {name}(): return 'of the project'\n" for name in names)
    )
    project.makepyfile("def test_it(agent, dataset): assert agent == dataset == 'of the project'")
    arguments = ("--agent=toy/gold", "competitions/toy-parity", ".", "-p", "no:cacheprovider")
    project.runpytest_subprocess(*arguments).stdout.fnmatch_lines(["*toy-parity*toy/gold*gold*", "*1 passed, 1 gold*"])
    project.runpytest_subprocess("competitions/toy-parity", "-p", "no:cacheprovider").assert_outcomes(passed=4)
