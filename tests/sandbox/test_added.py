"""A sandbox and a command added by a third-party package: the example of docs/sandboxes.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_mlebench import read_group

PAGE = Path(__file__).parents[2] / "docs/sandboxes.md"
COMMAND = """
def add(commands):
    commands.add_parser("hello", help="say hello").set_defaults(command=hello)


def hello(options):
    print("hello")
    return 3
"""
CLEAN = """

def clean(self, *, kept, dry_run, reporter):
    return [("kept" if kept else "all", print("would remove" if dry_run else "removing", "a machine"))]


UnsharedSandbox.clean = clean
"""
pytestmark = pytest.mark.full

Typed = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def typed(tmp_path: Path) -> Typed:
    """Runs a program in an environment with the package installed as by ``pip``."""
    text = PAGE.read_text()
    (code,) = re.findall(r'```python\n(""".*?)```', text, re.DOTALL)
    (entry,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    group, value = re.fullmatch(r'\[project\.entry-points\."(.*)"\]\n(.*)\n', entry).groups()  # type: ignore[union-attr]
    package, info = tmp_path / "site/my_package", tmp_path / "site/my_package-1.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").touch()
    (package / "sandbox.py").write_text(code)
    (package / "command.py").write_text(COMMAND)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1\n")
    added = f"[{group}]\n{value}\n[mlebench.commands]\nhello = my_package.command\n".replace('"', "")
    (info / "entry_points.txt").write_text(added)

    def typed(*words: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
        command = [sys.executable, "-m", *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)

    return typed


def test_the_added_sandbox_runs_agents(typed: Typed, tmp_path: Path) -> None:
    session = ("pytest", "-p", "no:cacheprovider", "--agent=baseline", "-k", "smoke-diabetes", "--sandbox=unshared")
    done = typed(*session, "--min-medal=bronze")
    assert done.returncode == 0, done.stdout + done.stderr
    (metadata,) = tmp_path.glob("reports/*/metadata.json")
    (record,) = read_group(metadata.parent).records
    assert (record.sandbox.name, record.sandbox.network) == ("unshared", "not enforced")
    assert record.ending == "finished"
    refused = typed(*session, "--network=none")
    assert (
        refused.returncode != 0
        and "this sandbox cannot keep an agent from the network" in refused.stdout + refused.stderr
    )


def test_commands_support_the_added_sandbox(typed: Typed, tmp_path: Path) -> None:
    assert re.search("^(ok|problem) +sandbox +unshare", typed("pytest_mlebench.cli", "doctor").stdout, re.MULTILINE)
    build = typed("pytest_mlebench.cli", "build", "--sandbox=unshared", "dummy")
    assert (build.returncode, build.stderr) == (1, "mlebench: --sandbox=unshared has no images\n")
    with (tmp_path / "site/my_package/sandbox.py").open("a") as file:
        file.write(CLEAN)
    clean = typed("pytest_mlebench.cli", "clean", "--dry-run", "--kept")
    assert clean.stdout.splitlines()[-1] == "would remove a machine", clean.stderr


def test_the_same_package_can_add_a_command(typed: Typed) -> None:
    assert "hello" in typed("pytest_mlebench.cli", "--help").stdout
    done = typed("pytest_mlebench.cli", "hello")
    assert (done.returncode, done.stdout) == (3, "hello\n")
