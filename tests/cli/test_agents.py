"""`mlebench agents` and `mlebench doctor`."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_mlebench.cli import agents
from pytest_mlebench.cli.main import main
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.files import bundled
from pytest_mlebench.io.progress import Note

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No engine, no keys, no network, no credentials."""

    def refuse(*arguments: object, **options: object) -> None:
        raise OSError("no network")

    for name in (*KEYS, *(name for name in os.environ if name.startswith("KAGGLE_")), "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.chdir(tmp_path)


def test_agents_are_listed_with_their_requirements(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-12345678")
    assert main(["agents"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (codex,) = [line for line in lines if line.startswith("codex/dev ")]
    (claude,) = [line for line in lines if line.startswith("claude-code/dev ")]
    assert "0.169.0" in codex and "no OPENAI_API_KEY" in codex and "debian:trixie-slim" in codex
    assert "ANTHROPIC_API_KEY  " in claude
    assert "Docker does not answer" in lines[-1]


@pytest.mark.full
@pytest.mark.docker
def test_a_folder_that_is_no_image_hides_no_other_agent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DOCKER_HOST")
    for name in ("one", "two"):
        folder = shutil.copytree(bundled("agents") / "dummy", tmp_path / "agents" / name)
        (folder / "config.yaml").write_text(f"{name}: {{start: {name}/start.sh, dockerfile: {name}/Dockerfile}}\n")
    (folder / "python").symlink_to("/usr/bin/python3")
    assert main(["agents", "--agents-dir=agents"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.endswith("not built") for line in lines if line.startswith(("one", "two"))] == [True, True]
    assert lines[-1] == f"agent two: {folder}/python is a link that leaves the agent's folder: copy it"


def test_agents_are_listed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents", "--json"]) == 0
    rows = {row["agent"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["react/dev"]["keys"] == ["OPENAI_API_KEY"]
    assert rows["react/dev"]["image_bytes"] is None


def test_the_doctor_reports_what_is_missing_and_what_to_do(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    main(["doctor", "--data-dir", str(tmp_path / "data")])
    output = capsys.readouterr().out
    for text in ("Docker does not answer", "OPENAI_API_KEY", "0 of 85 competitions", "kaggle.com/settings", "https"):
        assert text in output.replace("HTTPS_PROXY", "https")
    assert "not reached: api.openai.com" in output


def test_a_full_disk_is_a_problem(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usage = SimpleNamespace(free=1 << 30, total=10**12, used=10**12 - 10**9)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)
    assert main(["doctor", "--data-dir", str(tmp_path)]) == 1
    assert "problem data     1 GiB of free disk space; free some, or choose another folder" in capsys.readouterr().out


def test_a_host_that_answers_counts_as_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *arguments, **options: socket.socket())
    assert agents._reaches("api.openai.com")


class _Sandbox:
    """A fake sandbox with or without the image in which GPUs are tested."""

    def __init__(self, image: str | None, text: str = "", free: int = 1, error: str = "") -> None:
        self._image, self._text, self._free, self._error = image, text, free, error
        self.images = self

    def __call__(self, *, reporter: Callable[[Note], None], heavy: str, **options: object) -> _Sandbox:
        assert heavy == "cuda"
        self._reporter = reporter
        return self

    def built_environment(self) -> str | None:
        return self._image

    def test_gpus(self, image: str) -> int:
        if self._free:
            self._reporter(Note(self._text))
        if self._error:
            raise SandboxError(self._error)
        return self._free


@pytest.mark.parametrize(
    ("sandbox", "expected"),
    [
        (_Sandbox(None), "note    GPUs     not tested in a container, since the image is not built: mlebench build"),
        (_Sandbox("env", "ok   GPU: torch  1.0 s  a matrix product"), "ok      GPUs     GPU: torch 1.0 s a matrix"),
        (_Sandbox("env", free=0), "note    GPUs     not tested in a container, since runs use all of them"),
        (_Sandbox("env", "FAILED GPU: driver", error="check: driver failed"), "problem GPUs     check: driver failed"),
    ],
)
def test_the_doctor_tests_gpus_in_a_container(
    sandbox: _Sandbox,
    expected: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    program = tmp_path / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho '0, GPU-1, NVIDIA H100'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr("pytest_mlebench.sandbox.docker.sandbox.DockerSandbox", sandbox)
    main(["doctor", "--data-dir", str(tmp_path / "data")])
    output = capsys.readouterr().out
    assert "ok      GPUs     NVIDIA H100: --gpus=1 gives each run one" in output
    assert expected in output


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (None, "note    GPUs     none: nvidia-smi (NVIDIA's driver) is not installed"),
        ("exit 9", "problem GPUs     nvidia-smi shows none"),
    ],
)
def test_the_doctor_reports_why_there_are_no_gpus(
    program: str | None,
    expected: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    path = tmp_path / "nvidia-smi"
    if program:
        path.write_text(f"#!/bin/sh\n{program}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    main(["doctor", "--data-dir", str(tmp_path / "data")])
    assert expected in capsys.readouterr().out
