"""Ctrl-C before a command starts."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "pytest_mlebench.cli.groups":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Finder())
from pytest_mlebench.cli.main import main
sys.exit(main(["groups"]))
"""


def test_ctrl_c_during_imports_prints_one_line() -> None:
    """It once printed a traceback from an import."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (130, "mlebench: interrupted\n")
