"""Options without an effect in their combination are rejected or reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_mlebench import Bench
from pytest_mlebench import options as settings
from pytest_mlebench.errors import UsageError
from pytest_mlebench.options import Settings, check_effects, without_effect
from tests.plugin.test_settings import from_words


def given(words: str) -> tuple[Settings, frozenset[str]]:
    source = from_words(Path.cwd(), words)
    return settings.read([source], runs_dir=Path("/reports")), frozenset(source.values)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--agent=a --retry-failed=all", "--retry-failed needs the run group to retry"),
        ("--agent=a --seeds=10001", "--seeds=10001 is too large; a session has at most 10,000 seeds"),
        ("--agent=a --real-data", "--real-data checks graders, which --agent does not"),
        ("--resume=g --real-data", "--real-data checks graders"),
        ("--agent=a --gpu-ids=0,1", "--gpu-ids selects GPUs, but runs get none: add --gpus=N"),
        ("--gpu-ids=0", "--gpu-ids selects GPUs"),
        ("--seeds=3", "--seeds needs an agent: add --agent=ID"),
        ("--min-medal=gold --run-group=g", "--run-group and --min-medal need an agent"),
        ("--split=lite --time-limit=1h --cpus=3", "--time-limit and --cpus need an agent"),
        ("--split=lite --keep-sandbox", "--keep-sandbox needs an agent"),
        ("--split=lite --prepare=never", "--prepare needs --agent=ID or --real-data"),
        ("--agent=a --sandbox=local --heavy --base-image=b", "--base-image and --heavy are for containers"),
        (
            "--agent=a --network=none --allow-host=h",
            "--allow-host extends --network=llm: it has no effect with --network=none",
        ),
        ("--agent=a --llm-gateway=off --max-cost=3 --models=m", "--max-cost and --models need the gateway"),
    ],
)
def test_an_option_that_would_be_ignored_is_rejected(words: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_effects(*given(words))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "words",
    [
        "--agent=a --seeds=3 --min-medal=gold --run-group=g --retry-failed=all --allow-changes",
        "--resume=g --retry-failed=all",
        "--agent=a --gpus=2 --gpu-ids=0,1",
        "--split=lite --real-data --prepare=never --description=kaggle --data-dir=d",
        "--agent=a --heavy --allow-host=h --max-cost=3",
        "--sandbox=local --time-limit=1m",
        "--split=dev",
    ],
)
def test_options_that_have_an_effect_together_are_accepted(words: str) -> None:
    check_effects(*given(words))


def test_options_that_only_custom_tests_can_use_are_reported() -> None:
    assert without_effect(*given("--sandbox=local --time-limit=1m")) == ["--sandbox", "--time-limit"]
    assert without_effect(*given("--agent=a --time-limit=1m")) == []
    assert without_effect(*given("--data-dir=d")) == []


@pytest.mark.full
def test_a_session_reports_ineffective_options_before_any_run(project: pytest.Pytester) -> None:
    project.makepyfile(test_mine="def test_nothing(): pass")
    for workers in ([], ["-n", "1"]):
        refused = project.runpytest_subprocess("test_mine.py", "--agent=toy/gold", *workers)
        assert refused.ret != 0 and "passed" not in refused.stdout.str()
        refused.stderr.fnmatch_lines(["*nothing in test_mine.py runs an agent*"])
    (project.path / "none.txt").write_text("# none yet\n")
    empty = project.runpytest_subprocess("--agent=toy/gold", "--split=none.txt")
    empty.stderr.fnmatch_lines(["*none.txt names no competition*"])
    told = project.runpytest_subprocess("test_mine.py", "--time-limit=1m")
    told.assert_outcomes(passed=1)
    told.stdout.fnmatch_lines(["mlebench: without --agent, only tests that run agents use --time-limit"])


@pytest.mark.parametrize("option", ["--llm-providers", "--prices"])
def test_an_invalid_file_is_reported_even_if_no_agent_uses_a_model(option: str, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("model: [")
    chosen, _ = given(f"--agent=dummy {option}={tmp_path}/own.yaml")
    bench = Bench(settings=chosen)
    (agent,) = bench.chosen_agents
    assert not agent.may_ask_models
    with pytest.raises(UsageError, match=r"own\.yaml"):
        bench.check_agent(agent)
