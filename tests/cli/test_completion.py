"""Tab completion of ``mlebench`` in real shells."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_mlebench.cli.main import main

SETUPS = {
    "bash": ("--norc --noprofile -i", 'eval "$(mlebench completion bash)"'),
    "zsh": ("-f -i", 'autoload -U compinit && compinit -u -D; eval "$(mlebench completion zsh)"'),
    "fish": ("--no-config -i", "mlebench completion fish | source"),
}
COMPLETED = {
    "grade-s": "grade-sample",
    "grade-sample x.csv smoke-dig": "smoke-digits",
    "regrade --run": "--runs-dir",
    "build opencode/d": "opencode/dev",
    "report first-e": "first-evaluation",
}
"""The text typed after ``mlebench``, and the word that Tab completes at its end."""


class Terminal:
    """An interactive shell."""

    def __init__(self, shell: str, folder: Path) -> None:
        options, self.setup = SETUPS[shell]
        self._master, terminal = pty.openpty()
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "TERM": "dumb",
            "COLUMNS": "200",
        }
        self._process = subprocess.Popen(
            ["setsid", "--ctty", shell, *options.split()],
            cwd=folder,
            env=environment,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
        )
        os.close(terminal)
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> None:
        """Wait until the terminal shows this text, after the text of the last wait."""
        deadline = time.monotonic() + 120
        while text not in self._seen:
            ready, _, _ = select.select([self._master], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{text!r} is not in {self._seen!r}"
            self._seen += os.read(self._master, 65536).decode(errors="replace")
        self._seen = self._seen.partition(text)[2]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)


@pytest.mark.full
@pytest.mark.parametrize("shell", SETUPS)
def test_tab_completes_commands_options_and_names(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no {shell}: apt-get install {shell}")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "reports/first-evaluation").mkdir(parents=True)
    (tmp_path / "reports/first-evaluation/manifest.json").write_text("{}")
    terminal = Terminal(shell, tmp_path)
    try:
        terminal.type(f"{terminal.setup}; echo rea'dy'\n")
        terminal.wait_for("ready")
        for typed, completed in COMPLETED.items():
            terminal.type(f"mlebench {typed}\t")
            terminal.wait_for(completed)
            terminal.type("\x15")  # Ctrl-U clears the line
    finally:
        terminal.close()


def test_the_error_for_an_unknown_shell_lists_supported_shells(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion", "tcsh"])
    assert "'tcsh' (choose from" in capsys.readouterr().err


def test_completion_is_imported_only_if_a_shell_requests_it() -> None:
    program = "import sys; from pytest_mlebench.cli.main import main; main(['groups']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "pytest_mlebench.cli.groups" in done.stdout and "argcomplete" not in done.stdout
