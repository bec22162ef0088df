"""Sessions with a third-party agent: it runs only if the user grants the permissions that its folder requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_mlebench import Bench
from pytest_mlebench.runs.files import open_files

KEY = "sk-real-0123456789abcdef0123456789abcdef"


@pytest.fixture
def stranger(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with a third-party agent, which writes a mark on the host if it runs; no container runtime."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{pytester.path}/none.sock")
    monkeypatch.setenv("CONTAINER_HOST", f"unix://{pytester.path}/none.sock")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("MY_CLOUD_SECRET", "cloud-0123456789abcdef")
    folder = pytester.mkdir("agents") / "stranger"
    folder.mkdir()
    (folder / "start.sh").write_text(f"touch {pytester.path}/mark\nenv > $LOGS_DIR/environment\n")
    (folder / "Dockerfile").write_text("FROM mlebench-env\n")
    pytester.makeini("[pytest]\nmlebench_agents_dir = agents\nmlebench_data_dir = data\n")
    return pytester


def configure(project: pytest.Pytester, text: str) -> None:
    header = "stranger:\n  start: stranger/start.sh\n  dockerfile: stranger/Dockerfile\n"
    (project.path / "agents/stranger/config.yaml").write_text(header + text)


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    command = ("--agent=stranger", "--split=smoke", "-k", "diabetes", "-p", "no:cacheprovider", *options)
    return project.runpytest_subprocess(*command)


@pytest.mark.full
@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        ('  env_vars: {X: "${{ secrets.MY_CLOUD_SECRET }}"}\n  llm_hosts: [evil.example]\n', (), "--allow-secret"),
        ('  kwargs: {x: "${{ secrets.MY_CLOUD_SECRET }}"}\n  kwargs_type: argparse\n', (), "request it in env_vars"),
        ("  llm_hosts: [evil.example]\n", ("--network=llm",), "--allow-host"),
        ('  llm_hosts: ["http://host.docker.internal:8000"]\n', ("--network=llm",), "host.docker.internal"),
        ('  llm_hosts: ["127.0.0.1"]\n', ("--network=llm",), "127.0.0.1"),
        ("  trusted: true\n", (), "--trust-agent=stranger"),
        ("  trusted: true\n", ("--sandbox=local",), "--trust-agent=stranger"),
        ("  trusted: true\n", ("--sandbox=local", "--trust-agent=baseline"), "--trust-agent=stranger"),
        ("", ("--trust-agent=strangers",), "--trust-agent=strangers: unknown agent 'strangers'; did you mean stranger"),
    ],
)
def test_a_session_does_not_start_and_names_the_missing_permission(
    stranger: pytest.Pytester, config: str, options: tuple[str, ...], message: str
) -> None:
    configure(stranger, config)
    result = run(stranger, *options)
    text = result.stdout.str() + result.stderr.str()
    assert result.ret != 0 and message in text and "Traceback" not in text
    assert not (stranger.path / "mark").exists()
    assert KEY not in text and "cloud-0123456789abcdef" not in text


@pytest.mark.full
def test_a_trusted_agent_runs_and_still_gets_no_key(stranger: pytest.Pytester) -> None:
    configure(stranger, '  env_vars: {OPENAI_API_KEY: "${{ secrets.OPENAI_API_KEY }}"}\n')
    idle = ("--trust-agent=baseline", "--allow-secret=OTHER")
    result = run(stranger, "--sandbox=local", "--trust-agent=stranger", *idle, "--run-group=mine")
    result.stdout.fnmatch_lines([f"mlebench: {option} has no effect: *" for option in idle])
    result.stdout.no_fnmatch_line("*--trust-agent=stranger has no effect*")
    assert (stranger.path / "mark").exists()
    assert_keyless(stranger.path)


@pytest.mark.full
def test_the_python_api_gives_no_key_either(stranger: pytest.Pytester) -> None:
    configure(stranger, '  env_vars: {OPENAI_API_KEY: "${{ secrets.OPENAI_API_KEY }}"}\n')
    bench = Bench(sandbox="local", agents_dir="agents", data_dir="data", trust_agent="stranger")
    bench.run("stranger", "smoke-diabetes", group="mine")
    assert_keyless(stranger.path)


def assert_keyless(project: Path) -> None:
    """Assert that the agent had its run's token instead of the key, and that no file of the run contains the key."""
    (run_dir,) = (path.parent for path in project.glob("reports/mine/*/run.json"))
    with open_files(run_dir) as files:
        (found,) = [file for file in files.below("logs") if file.path.endswith("environment")]
        environment = files.read(found.path, found.size).decode()
        assert all(KEY.encode() not in files.read(file.path, file.size) for file in files.below("logs"))
    assert "OPENAI_API_KEY=" in environment and KEY not in environment and "MY_CLOUD_SECRET" not in environment
    left = [path for path in (project / "reports").rglob("*") if path.is_file()]
    assert [path.name for path in left if KEY.encode() in path.read_bytes()] == []


@pytest.mark.full
def test_a_secret_that_no_agent_requested_is_masked_in_a_run_without_isolation(
    stranger: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "hf_0123456789abcdefghijklmnopqrstuv"
    monkeypatch.setenv("HF_TOKEN", secret)
    configure(stranger, "  trusted: true\n")
    (stranger.path / "found").write_text(secret)  # as if in a file of the user, which such an agent can read
    start = f"cat {stranger.path}/found; cat {stranger.path}/found > $LOGS_DIR/found; exit 3\n"
    (stranger.path / "agents/stranger/start.sh").write_text(start)
    result = run(stranger, "--sandbox=local", "--trust-agent=stranger", "--run-group=mine")
    result.stdout.fnmatch_lines(["*exit code 3*"])
    assert secret not in result.stdout.str() + result.stderr.str()
    (record,) = stranger.path.glob("reports/mine/*/run.json")
    assert "***" in (record.parent / "run.log").read_text()
    left = [path for path in (stranger.path / "reports").rglob("*") if path.is_file()]
    assert [path.name for path in left if secret.encode() in path.read_bytes()] == []
    with open_files(record.parent) as files:
        (found,) = files.below("logs")
        assert secret.encode() not in files.read(found.path, found.size)
