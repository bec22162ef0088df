"""Delete extras from a copy of the project and run the core's tests there: first without all extras, then without each.

usage: python -m tools.without_extras [--at-once | EXTRA …]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = sorted(path.name for path in (ROOT / "pytest_mlebench/extras").iterdir() if (path / "__init__.py").is_file())
FRONT = ("tests/test_front_door.py", "tests/cli/test_core.py")
TESTS = (
    *(*FRONT, "tests/test_bench.py", "tests/plugin/test_outcomes.py"),
    *("tests/plugin/test_resume.py", "tests/plugin/test_collection.py"),
)
"""Tests of the core that do not need an extra."""


def try_without(extras: Sequence[str], tests: Sequence[str]) -> bool:
    """Return whether the core's tests pass in a copy without these extras."""
    with tempfile.TemporaryDirectory(prefix=f"without-{extras[0]}-") as folder:
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout
        copy = ["xargs", "-0", "cp", "--parents", "-t", folder]
        subprocess.run(copy, cwd=ROOT, input=names, check=True)
        subprocess.run(["rm", "-r", *(f"{folder}/pytest_mlebench/extras/{extra}" for extra in extras)], check=True)
        print(f"--- without {', '.join(extras)}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", *tests]
        return subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": folder}, check=False).returncode == 0


def main(chosen: list[str]) -> int:
    """Test without the chosen extras, one at a time; by default without all at once, then without each.

    In the last case only a few tests run, because one extra may need another. The exit status is 1 if the core needs
    one of them.
    """
    if chosen == ["--at-once"]:
        return not try_without(EXTRAS, TESTS)
    if not chosen and not try_without(EXTRAS, TESTS):
        chosen = EXTRAS  # find out which one
    needed = [extra for extra in chosen or EXTRAS if not try_without([extra], TESTS if chosen else FRONT)]
    print(f"the core needs {', '.join(needed)}" if needed else "the core needs no extra")
    return bool(needed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
