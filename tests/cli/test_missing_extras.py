"""If an extra was deleted, or its packages are not installed, the error says what to install."""

from __future__ import annotations

import sys

import pytest

from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.extensions import needs_extra

WITHOUT = """
import sys

_, missing, *words = sys.argv

class Missing:
    def find_spec(self, name, path=None, target=None):
        if f"{name}.".startswith(f"{missing}."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""
COMMAND = f"{WITHOUT}\nfrom pytest_mlebench.cli.main import main\nsys.exit(main(words))"
SESSION = f"{WITHOUT}\nimport pytest\nsys.exit(pytest.main(['-p', 'no:cacheprovider', *words]))"
BENCH = f"{WITHOUT}\nfrom pytest_mlebench import Bench\ngetattr(Bench(), *words)"
REINSTALL = "needs a part of pytest-mlebench that is not installed: reinstall pytest-mlebench from its source"
VIEW = "the command view needs packages that are not installed: pip install '*[view]' (No module named *)"
EXTRAS = "pytest_mlebench.extras."


@pytest.mark.parametrize(
    ("program", "missing", "call", "error"),
    [
        (COMMAND, "extras.audit", "audit last", f"the command audit {REINSTALL}"),
        (COMMAND, "extras.viewer", "view", f"the command view {REINSTALL}"),
        (COMMAND, "extras.apptainer", "agents --sandbox=apptainer", f"--sandbox: apptainer {REINSTALL}"),
        (COMMAND, "extras.apptainer", "build --sif=images", f"--sif {REINSTALL}"),
        (COMMAND, "extras.remote_data", "push file:///nowhere", f"file:///nowhere: file:// {REINSTALL}"),
        (COMMAND, "extras.engines", "stop last", f"the command stop {REINSTALL}"),
        (SESSION, "extras.engines", "--agent=dummy --cluster=slurm", f"--cluster: slurm {REINSTALL}"),
        (SESSION, "extras.interop", "--agent=dummy --otlp=http://x", f"--otlp {REINSTALL}"),
        (BENCH, "extras.training", "episode", f"Bench.episode {REINSTALL}"),
        (BENCH, "extras.audit", "bundle", f"Bench.bundle {REINSTALL}"),
        (COMMAND, "starlette", "view", VIEW),
        (COMMAND, "markdown_it", "view", VIEW),
    ],
)
def test_the_error_says_what_to_install(
    program: str, missing: str, call: str, error: str, pytester: pytest.Pytester
) -> None:
    done = pytester.run(sys.executable, "-c", program, missing.replace("extras.", EXTRAS), *call.split())
    assert done.ret != 0
    done.stderr.fnmatch_lines([f"*{error.replace('[', '[[]')}"])
    assert "Traceback" not in done.stderr.str() or program == BENCH


def test_the_error_of_a_broken_package_is_shown() -> None:
    message = r"^--to=x cannot be used: cannot import name 'nothing' from 'json' .*: pip install --upgrade '.*\[x\]'"
    with pytest.raises(UsageError, match=message), needs_extra("--to=x", "x"):
        exec("from json import nothing")
