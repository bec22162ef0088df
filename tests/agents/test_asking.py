"""The prompts of all agents, from the environment's `prompt.sh` and `ask.sh`."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from pytest_mlebench.io.files import bundled
from pytest_mlebench.sandbox import Limits
from pytest_mlebench.sandbox.contract import render_instructions, scripts

PLACES = {name: f"/there/{name}" for name in ("data", "submission", "logs", "code", "validate")}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for script in scripts():
        (tmp_path / script.name).write_bytes(script.read_bytes())
    (tmp_path / "instructions.txt").write_text("Solve this.\n")
    (tmp_path / "description.md").write_text("Predict the label.\n")
    return tmp_path


def execute(home: Path, script: str, *arguments: str, left: float = 7300, **variables: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "DATA_DIR": str(home),
        "SUBMISSION_DIR": str(home / "submission"),
        "DEADLINE": f"{time.time() + left:.0f}",
        **variables,
    }
    command = ["bash", str(home / script), *arguments]
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
    )
    return f"{done.stdout}[{done.returncode}]"


def test_the_prompt_has_instructions_description_and_remaining_time(home: Path) -> None:
    prompt = execute(home, "prompt.sh")
    assert prompt.startswith("Solve this.\n")
    assert "You have 2 hours left." in prompt
    assert prompt.endswith("Predict the label.\n[0]")
    assert "You have 59 minutes left. Improve" in execute(home, "prompt.sh", "again", left=3590)


def test_a_long_description_is_cut_and_the_prompt_names_its_file(home: Path) -> None:
    (home / "description.md").write_text("x" * 200_000)
    prompt = execute(home, "prompt.sh")
    assert len(prompt) < 101_000
    assert f"[cut: the rest is in {home}/description.md]" in prompt


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Limits(cpus=8, memory=64 << 30, gpus=2), "8 processors, 64 GiB of memory and 2 GPUs"),
        (Limits(cpus=1, memory=4 << 30), "1 processor, 4 GiB of memory and no GPU"),
    ],
)
def test_the_instructions_list_the_hardware(limits: Limits, text: str) -> None:
    assert f"- This machine has {text} for you." in render_instructions(limits=limits, **PLACES)


def test_an_agent_is_asked_once(home: Path) -> None:
    assert execute(home, "ask.sh", "head -n 1; exit 3", "echo again", UNTIL="done") == "Solve this.\n[3]"


def test_an_agent_that_cannot_be_asked_again_logs_that_it_is_asked_once(home: Path) -> None:
    assert execute(home, "ask.sh", "head -n 1", UNTIL="limit") == (
        "--until=limit: this agent cannot be asked again, so its run ends when it is done\nSolve this.\n[0]"
    )
    assert execute(home, "ask.sh", "head -n 1") == "Solve this.\n[0]"


def test_an_agent_is_asked_again_until_time_is_up_or_it_fails_repeatedly(home: Path) -> None:
    (home / "bin").mkdir()
    (home / "bin/sleep").write_text("#!/bin/bash\n")  # do not wait
    (home / "bin/sleep").chmod(0o755)
    path = f"{home / 'bin'}:{os.environ['PATH']}"
    output = execute(home, "ask.sh", "head -n 1", "head -c 26; echo; exit 4", UNTIL="limit", PATH=path)
    assert output == "Solve this.\n" + "You have 2 hours left. Imp\n" * 2 + "[4]"
    assert execute(home, "ask.sh", "head -n 1", "echo again", UNTIL="limit", left=50) == "Solve this.\n[0]"


def test_all_agents_that_use_models_use_the_common_prompt() -> None:
    for folder in bundled("agents").iterdir():
        if folder.name not in ("dummy", "baseline"):
            asking = [path for path in folder.glob("*.*") if re.search(r"\b(ask|prompt)\.sh", path.read_text())]
            assert asking, folder.name


START = 'set -eu; api=openai model= turns=30; . "{home}/options.sh"; echo "$model $turns $url $key"'


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (("--model", "some model"), "some model 30 https://api.openai.com/v1 k1\n[0]"),
        (("--api", "anthropic", "--turns", "5"), " 5 http://gateway k2\n[0]"),
        (("--api", "other"), "start: unknown API other\n[2]"),
        (("--turn", "5"), "start: unknown argument --turn 5\n[2]"),
        (("--PATH", "5"), "start: unknown argument --PATH 5\n[2]"),
        (("--model",), "start: unknown argument --model\n[2]"),
    ],
)
def test_start_scripts_read_their_arguments(home: Path, arguments: tuple[str, ...], output: str) -> None:
    keys = {"OPENAI_API_KEY": "k1", "ANTHROPIC_API_KEY": "k2", "ANTHROPIC_BASE_URL": "http://gateway"}
    done = subprocess.run(
        ["bash", "-c", START.format(home=home), "start", *arguments],
        env={"PATH": os.environ["PATH"], **keys},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert f"{done.stdout}[{done.returncode}]" == output
