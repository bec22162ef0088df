"""The gateway from pytest's command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.cli.main import main
from pytest_mlebench.llm.ledger import BODIES, read_bodies, read_calls
from tests.left import contents
from tests.llm.test_budgets import OUTPUT
from tests.llm.test_runs import ASK, SCRIPT, key_forms
from tests.llm.upstreams import KEY, REPLY, Failure, Upstream

pytestmark = pytest.mark.full  # dozens of sessions in separate processes

Session = Callable[..., pytest.RunResult]


@pytest.fixture
def session(pytester: pytest.Pytester, upstream: Upstream) -> Session:
    """Runs an agent that calls a model twice, on smoke-digits in the local sandbox."""
    folder = pytester.mkdir("agents") / "asking"
    folder.mkdir()
    (folder / "start.sh").write_text(f"{SCRIPT.replace('$ASK', '$(cat $AGENT_DIR/ask.py)')}\n")
    (folder / "ask.py").write_text(ASK.replace("TIMES", "2"))
    (folder / "config.yaml").write_text(
        "asking:\n  start: asking/start.sh\n  trusted: true\n"
        "  env_vars:\n    OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }}\n"
    )

    def run(*arguments: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess(
            "--agent=asking", "--agents-dir=agents", "--sandbox=local", "--trust-agent=asking",
            "-k", "smoke-digits", "-p", "no:cacheprovider",
            f"--data-dir={pytester.path / 'data'}", *arguments,
        )  # fmt: skip

    return run


def record(pytester: pytest.Pytester, group: str) -> tuple[dict[str, Any], Path]:
    (file,) = (pytester.path / "reports" / group).glob("*/run.json")
    values: dict[str, Any] = json.loads(file.read_text())
    return values, file.parent


def test_a_session_records_the_cost_of_its_runs(
    session: Session, pytester: pytest.Pytester, upstream: Upstream
) -> None:
    result = session("--run-group=g", "--junit-xml=out.xml")
    values, run_dir = record(pytester, "g")
    assert values["llm"]["calls"] == len(read_calls(run_dir)) == 2
    assert values["llm"]["cost"] > 0
    assert REPLY in (run_dir / "run.log").read_text()
    manifest = json.loads((run_dir.parent / "manifest.json").read_text())
    assert manifest["models"] == {"asking": {"gpt-4o": 2}}
    result.stdout.fnmatch_lines(["*competition*cost*", "*smoke-digits*asking*$0.000*", "*cost: $0.000*"])
    xml = (pytester.path / "out.xml").read_text()
    assert 'name="cost"' in xml
    assert 'name="model_calls" value="2"' in xml
    assert [name for name, content in contents(pytester.path) if KEY.encode() in content] == []


def test_runs_stop_after_the_first_if_the_provider_is_unreachable(
    session: Session, pytester: pytest.Pytester, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:9/v1")
    with (pytester.path / "agents/asking/start.sh").open("a") as script:
        script.write('rm "$SUBMISSION_DIR/submission.csv"\nexit 1\n')
    result = session("--run-group=g", "--seeds=3", "--llm-retries=0")
    values, run_dir = record(pytester, "g")  # from one run
    assert values["outcome"] == "crashed"
    result.stdout.fnmatch_lines(
        [
            "*= not run =*",
            "asking: no model call was answered (2 failed): openai cannot be reached: *. Its other runs *",
            "reason: no model call was answered (2 failed): openai cannot be reached: *",
            "not finished: 2 of 3 runs; resume: *",
        ]
    )
    assert "no model call was answered (2 failed)" in (run_dir.parent / "report.html").read_text()


def test_budgets_models_and_recordings_are_options(
    session: Session, pytester: pytest.Pytester, upstream: Upstream
) -> None:
    options = ("--max-calls=1", "--models=gpt-4o*", "--llm-record=calls", "--max-cost=5")
    result = session("--run-group=g", *options, "--junit-xml=out.xml")
    result.stdout.fnmatch_lines(["*smoke-digits*asking*budget ended", "*budget used up in 1 run*"])
    assert 'name="ending" value="budget ended"' in (pytester.path / "out.xml").read_text()
    page = (pytester.path / "reports/g/report.html").read_text()
    assert "budget ended after" in page and "(--max-calls=1)" in page
    values, run_dir = record(pytester, "g")
    assert values["llm"]["budget_ended"] == "--max-calls=1"
    assert (values["ending"], values["detail"]) == ("budget ended", "--max-calls=1")
    assert sorted(path.name for path in (run_dir / "llm").iterdir()) == ["calls.jsonl"]
    settings = json.loads((run_dir.parent / "manifest.json").read_text())["settings"]
    assert (settings["max_calls"], settings["models"]) == (1, ["gpt-4o*"])
    result = session("--run-group=g", "--max-calls=2")
    result.stderr.fnmatch_lines(["*max_calls was 1, is 2*"])


def test_failed_requests_are_shown_next_to_the_cost(
    session: Session, pytester: pytest.Pytester, upstream: Upstream, capsys: pytest.CaptureFixture[str]
) -> None:
    upstream.failures.append(Failure(401, {"error": {"message": "no such key"}}))
    result = session("--run-group=g")
    result.stdout.fnmatch_lines(["asking on smoke: cost: *1 model call, *; requests that failed: 1 × 401"])
    assert main(["report", str(pytester.path / "reports/g")]) == 0
    assert "asking on smoke: requests that failed: 1 × 401\n" in capsys.readouterr().out


def test_ini_keys_set_defaults(session: Session, pytester: pytest.Pytester, upstream: Upstream) -> None:
    pytester.makeini("[pytest]\nmlebench_max_calls = 1\nmlebench_models = gpt-5 gpt-4o\n")
    session("--run-group=g")
    assert record(pytester, "g")[0]["llm"]["budget_ended"] == "--max-calls=1"


def test_a_group_is_replayed(
    session: Session, pytester: pytest.Pytester, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    session("--run-group=first")
    monkeypatch.delenv("OPENAI_API_KEY")
    session("--run-group=second", "--llm-replay=first")
    values, run_dir = record(pytester, "second")
    assert (values["llm"]["replayed"], values["llm"]["cost"]) == (2, 0)
    differences = json.loads((run_dir.parent / "manifest.json").read_text())["canonical"]["differences"]
    assert "answers of language models are from a recording" in differences
    assert len(upstream.seen) == 2


def test_the_gateway_can_be_turned_off(session: Session, pytester: pytest.Pytester, upstream: Upstream) -> None:
    session("--run-group=g", "--llm-gateway=off", "--allow-secret=OPENAI_API_KEY")
    values, _ = record(pytester, "g")
    assert values["llm"] == {"gateway": "off"}
    assert upstream.seen == []  # the script finds no base URL


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--max-cost=free", "--max-cost: 'free' is not a positive number"),
        ("--max-calls=0", "--max-calls: '0' is not a whole number of at least 1"),
        ("--llm-record=all", "--llm-record: 'all' is not one of bodies, calls, off"),
        ("--prices=none.yaml", "--prices: *none.yaml is not a file"),
        ("--llm-providers=bad.yaml", "*bad.yaml*must be a mapping*"),
        ("--llm-replay=nothing", "*nothing*"),
    ],
)
def test_an_invalid_value_is_reported_at_once(
    argument: str, message: str, session: Session, pytester: pytest.Pytester
) -> None:
    (pytester.path / "bad.yaml").write_text("[]")
    result = session(argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{message}*"])


def test_an_unknown_recording_is_reported_at_once_even_without_models(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(
        "--agent=dummy", "--split=smoke", "--sandbox=local", "--llm-replay=reports/x"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*run group reports/x does not exist*"])


def test_a_missing_key_is_reported_at_once(
    session: Session, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    result = session()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*asking needs OPENAI_API_KEY*"])


def test_the_gateway_is_not_imported_without_an_agent_that_uses_models(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import sys\n"
        "def pytest_unconfigure(config):\n"
        "    heavy = ('aiohttp', 'genai_prices', 'sqlite3')\n"
        "    print('loaded', [n for n in sys.modules if n in heavy or n.startswith('pytest_mlebench.llm')])\n"
    )
    result = pytester.runpytest_subprocess(
        "--agent=dummy", "-k", "smoke-digits", "--sandbox=local", f"--data-dir={pytester.path / 'data'}", "-s"
    )
    result.stdout.fnmatch_lines(["loaded []"])


def test_workers_and_later_sessions_share_a_budget(
    session: Session, pytester: pytest.Pytester, upstream: Upstream
) -> None:
    price = {"gpt-4o": {"input": 0, "output": 1_000_000}}  # a dollar per token
    (pytester.path / "prices.yaml").write_text(json.dumps(price))
    # A response is limited to at least 1024 tokens and uses all of them, so four calls are paid.
    upstream.echo = " word" * (1024 - OUTPUT)
    options = ("--run-group=g", f"--max-total-cost={4 * 1024}", "--prices=prices.yaml", "-p", "xdist")
    session(*options, "-n4", "--seeds=4")
    assert 1 <= upstream.served <= 4  # eight were requested; a share too small for a call is left to others
    session(*options, "-n0", "--seeds=8")
    assert upstream.served == 4
    session(*options, "-n4", "--seeds=10")
    assert upstream.served == 4
    records = [json.loads(file.read_text()) for file in (pytester.path / "reports/g").glob("*/run.json")]
    assert len(records) == 10
    assert sum(record["llm"]["cost"] for record in records) == 4 * 1024
    assert sum(record["llm"]["calls"] for record in records) == 4


def test_no_file_of_a_session_contains_the_key(session: Session, pytester: pytest.Pytester, upstream: Upstream) -> None:
    upstream.echo = f" {KEY}"
    options = ("--junit-xml=out.xml", "--html=out.html", "--min-medal=gold", "-l", "--tb=long", "-rA", "-p", "xdist")
    result = session("--run-group=g", "--seeds=2", "-n2", *options)
    result.assert_outcomes(failed=2)
    found = {"stdout": result.stdout.str().encode(), "stderr": result.stderr.str().encode()}
    found |= dict(contents(pytester.path))
    for path in filter(Path.is_file, pytester.path.rglob("*")):
        if path.name == Path(BODIES).name:
            found[f"{path}, unpacked"] = json.dumps(list(read_bodies(path.parent.parent))).encode()
    assert sum("unpacked" in name for name in found) == 2
    assert sum(name.endswith("environments") for name in found) == 2
    assert [name for name, content in found.items() if any(form in content for form in key_forms())] == []
