"""Creates the screenshots for the documentation from real runs of scripted agents, in Chromium and in a terminal.

    python -m tools.pictures                          # all of them, into docs/images; takes some minutes
    python -m tools.pictures --only view-run          # one of them
    python -m tools.pictures --keep /tmp/pictured     # keep the run groups there, and reuse them next time

Agents run on the smoke split in the local sandbox, without a network. Their model's messages are in
``scripted_agents.py``. Pages and output are unedited, except that the working folder is renamed. Each page has a
light and a dark version (``-dark.png``).
"""

from __future__ import annotations

import argparse
import fcntl
import io
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.reports.browser import Browser, Tab
from tools.scripted_agents import provider, write_agents

IMAGES = Path(__file__).parents[1] / "docs/images"
MOST_BYTES = 150_000
HOME = "/home/you/bench"
"""Name of the working folder in the screenshots."""
_DEADLINE = 1200.0
_THEME = TerminalTheme(
    (22, 27, 34),
    (214, 220, 228),
    [(72, 79, 88), (255, 123, 114), (126, 214, 133), (226, 179, 64), (121, 184, 255), (210, 168, 255), (118, 227, 234),
     (214, 220, 228)],
    [(110, 118, 129), (255, 161, 152), (150, 232, 158), (242, 204, 96), (165, 214, 255), (226, 197, 255),
     (179, 240, 255), (255, 255, 255)],
)  # fmt: skip
_SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, "DejaVu Sans Mono", Menlo, monospace }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


@dataclass(frozen=True)
class Page:
    """A screenshot of a page, taken once the JavaScript expression ``until`` is true.

    ``path`` is an address in the viewer, or a file relative to the reports folder. ``{run}`` is a run of the planner,
    on breast cancer if there is one.
    """

    path: str
    until: str
    width: int = 1200
    height: int = 800
    act: str = ""
    """JavaScript to run before taking the screenshot."""


PAGES: Mapping[str, Page] = {
    "report": Page(
        "both.html",
        "document.querySelectorAll('#plots svg').length > 2 && document.querySelector('#table')",
        height=1060,
    ),
    "view-groups": Page("/", "document.querySelectorAll('#groups tbody tr').length >= 2", height=560),
    "view-group": Page("/group/planner", "document.querySelectorAll('#table tr[id]').length > 2"),
    "view-run": Page("/run/planner/{run}", "document.querySelector('.picture .mark')", height=1060),
    "view-trajectory": Page(
        "/run/planner/{run}/trajectory",
        "document.querySelectorAll('[data-step]').length > 5 && document.querySelector('.outline [data-to]')",
        act="document.querySelector('[data-to=\"9\"]').click()",
        height=900,
    ),
    "view-compare": Page(
        "/compare?g=planner&g=tinkerer", "document.querySelectorAll('#matrix tbody tr').length >= 3", height=900
    ),
}


@dataclass(frozen=True)
class Terminal:
    """A screenshot of a terminal after these commands, with at most ``lines`` of output for each."""

    commands: tuple[str, ...]
    columns: int = 100
    lines: int = 80


TERMINALS: Mapping[str, Terminal] = {
    "terminal-run": Terminal(("pytest --agent=baseline --split=smoke --sandbox=local",), columns=118),
    "terminal-watch": Terminal(("mlebench watch planner --once",)),
    "terminal-report": Terminal(("mlebench report planner tinkerer",), columns=112, lines=42),
    "terminal-audit": Terminal(
        ("mlebench audit tinkerer", "mlebench bundle planner", "mlebench verify planner.tar.zst"), columns=112
    ),
}
_AT_ITS_TIME = ("terminal-run", "terminal-watch")
"""Screenshots that can be taken only while agents run."""
_NEEDS = {"terminal-run": (), "terminal-watch": ("planner",), "view-run": ("planner",), "view-trajectory": ("planner",)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*PAGES, *TERMINALS]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"one of {', '.join(names)}")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep run groups in this folder, and reuse them")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("-k", default="", metavar="COMPETITION", help="only competitions whose name contains this text")
    parser.add_argument("-o", "--output", type=Path, default=IMAGES, metavar="DIR")
    options = parser.parse_args(arguments)
    wanted = options.only or names
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pictures-") as temporary:
        work = (options.keep or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        studio = Studio(work, options.output, seeds=options.seeds, only=options.k)
        studio.run_groups(wanted)
        for name in wanted:
            if name in TERMINALS and name not in _AT_ITS_TIME:
                studio.record(name)
        if pages := [name for name in wanted if name in PAGES]:
            studio.take(pages)
    for path in sorted(options.output.iterdir()):
        print(f"{path.stat().st_size / 1000:8.0f} kB  {path.name}")


class Studio:
    """Creates run groups in ``work``, as a user would in their own folder, and screenshots of them in ``output``."""

    def __init__(self, work: Path, output: Path, *, seeds: int = 3, only: str = "") -> None:
        self.work, self.output, self._seeds, self._only = work, output, seeds, only
        self.reports = work / "reports"
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        self._environment = {
            **kept,
            "PATH": path,
            "TERM": "xterm-256color",
            "MLEBENCH_DATA_DIR": str(work / "data"),
            "PYTEST_ADDOPTS": "-p no:benchmark -p no:cacheprovider",  # installed for developers, not for users
            "OPENAI_API_KEY": "sk-none-is-needed",
        }

    def run_groups(self, wanted: Sequence[str]) -> None:
        """Run the agents whose run groups the screenshots need, unless the groups already exist."""
        needed = [agent for name in wanted for agent in _NEEDS.get(name, ("planner", "tinkerer"))]
        if not (self.work / "agents").exists():
            write_agents(self.work)
        with provider() as url:
            self._environment["OPENAI_BASE_URL"] = url
            if "terminal-run" in wanted:
                shutil.rmtree(self.reports / "baseline", ignore_errors=True)
                self.terminal("mlebench prepare --split=smoke", 80)
                self.record("terminal-run", more=" --run-group=baseline")
            for agent in dict.fromkeys(needed):
                self._run_agent(agent, watch="terminal-watch" in wanted and agent == "planner")

    def _run_agent(self, agent: str, *, watch: bool) -> None:
        if watch:
            shutil.rmtree(self.reports / agent, ignore_errors=True)
        if (self.reports / agent).exists():
            return
        chosen = [f"-k={self._only}"] if self._only else []
        command = [sys.executable, "-m", "pytest", f"--agent={agent}", "--agents-dir=agents", "--prices=prices.yaml"]
        command += [
            "--split=smoke",
            f"--seeds={self._seeds}",
            "--sandbox=local",
            f"--trust-agent={agent}",
            f"--run-group={agent}",
            "-n2",
            *chosen,
        ]
        with (self.work / f"{agent}.txt").open("w") as log:
            process = subprocess.Popen(command, cwd=self.work, env=self._environment, stdout=log, stderr=log)
            try:
                if watch:
                    self._watch(process)
                process.wait(_DEADLINE)
            finally:
                process.kill()
                process.wait()
        if not list((self.reports / agent).glob("*/run.json")):
            raise SystemExit(f"{agent} produced no runs:\n{(self.work / f'{agent}.txt').read_text()[-3000:]}")

    def _watch(self, session: subprocess.Popen[bytes]) -> None:
        """Record `mlebench watch` while two workers are busy and some runs have ended."""
        group, deadline = self.reports / "planner", time.monotonic() + _DEADLINE
        while len(list(group.glob("*/run.json"))) < 3 or len(list(group.glob("*/running.json"))) < 2:
            if session.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the session ended before it could be watched")
            time.sleep(0.5)
        time.sleep(5)
        self.record("terminal-watch")

    def record(self, name: str, *, more: str = "") -> None:
        """Run the commands of a terminal screenshot, and draw it."""
        picture, shown = TERMINALS[name], list[tuple[str, str]]()
        for bundle in self.work.glob("*.tar.zst"):
            bundle.unlink()
        for command in picture.commands:
            lines = self.terminal(command, picture.columns, more=more).strip("\n").split("\n")
            cut = [*lines[: picture.lines], "…"] if len(lines) > picture.lines else lines
            shown.append((command, "\n".join(cut)))
        (self.output / f"{name}.svg").write_text(drawn(name, shown, picture.columns), encoding="utf-8")

    def terminal(self, command: str, columns: int, *, more: str = "") -> str:
        """Returns a command's output in a terminal of this width. The screenshot does not show the options ``more``."""
        program, *options = f"{command}{more}".split()
        module = {"pytest": "pytest", "mlebench": "pytest_mlebench.cli"}[program]
        far, near = pty.openpty()
        fcntl.ioctl(near, termios.TIOCSWINSZ, struct.pack("HHHH", 60, columns, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-m", module, *options],
            cwd=self.work,
            env={**self._environment, "COLUMNS": str(columns)},
            stdin=near,
            stdout=near,
            stderr=near,
        )
        os.close(near)
        output, deadline = b"", time.monotonic() + _DEADLINE
        try:
            while time.monotonic() < deadline:
                if not select.select([far], [], [], 1)[0]:
                    continue
                try:
                    block = os.read(far, 1 << 16)
                except OSError:  # raised when the terminal closes
                    break
                if not block:
                    break
                output += block
            process.wait(30)
        finally:
            process.kill()
            process.wait()
            os.close(far)
        return output.decode().replace("\r\n", "\n").replace(str(self.work), HOME)

    def take(self, names: Sequence[str]) -> None:
        """Take light and dark screenshots of pages."""
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        if chromium is None:
            raise SystemExit("Chromium is required: install `chromium` or `google-chrome`")
        if "report" in names:
            self.terminal("mlebench report planner tinkerer --format=html -o reports/both.html", 80)
        with self._viewer() as url, Browser(chromium, self.work / "profile") as browser:
            for name in names:
                page = PAGES[name]
                path = page.path.format(run=self._run())
                address = url + path if path.startswith("/") else f"file://{self.reports}/{path}"
                for suffix, dark in (("", False), ("-dark", True)):
                    tab = browser.open(address, width=page.width, dark=dark)
                    self._shoot(tab, page, self.output / f"{name}{suffix}.png")
                    tab.close()
        shutil.rmtree(self.work / "profile", ignore_errors=True)

    def _run(self) -> str:
        runs = sorted(path.parent.name for path in (self.reports / "planner").glob("*/run.json"))
        return next((run for run in runs if run.startswith("smoke-breast-cancer_planner-0")), runs[0])

    @contextmanager
    def _viewer(self) -> Iterator[str]:
        command = [sys.executable, "-m", "pytest_mlebench.cli", "view", "--port=0", str(self.reports)]
        with subprocess.Popen(command, env=self._environment, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield process.stdout.readline().strip().rstrip("/")
            finally:
                process.send_signal(signal.SIGINT)

    def _shoot(self, tab: Tab, page: Page, path: Path) -> None:
        size = {"width": page.width, "height": page.height, "mobile": False}
        tab.see("document.documentElement.style.scrollbarWidth = 'none'; 0")
        tab.call("Emulation.setDeviceMetricsOverride", deviceScaleFactor=2, **size)
        tab.wait(page.until)
        if page.act:
            tab.see(f"{page.act}; 0")
        renamed = f"own.textContent = own.textContent.replace({str(self.work)!r}, {HOME!r})"
        tab.see(f"for (const own of document.querySelectorAll('.lead')) if (!own.childElementCount) {renamed}; 0")
        tab.see("document.activeElement.blur(); document.fonts.ready.then(() => 0)")
        time.sleep(0.3)
        assert tab.errors == [], (path.name, tab.errors)
        picture = Image.open(io.BytesIO(b64decode(tab.call("Page.captureScreenshot", format="png")["data"])))
        for colours, share in ((256, 1.0), (128, 1.0), (128, 0.75), (64, 0.75), (64, 0.5)):
            shown = picture.convert("RGB")
            if share < 1:
                shown = shown.resize((int(shown.width * share), int(shown.height * share)), Image.Resampling.LANCZOS)
            shown = shown.quantize(colours, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
            shown.save(path, optimize=True)
            if path.stat().st_size <= MOST_BYTES:
                return
        raise SystemExit(f"{path.name} is larger than {MOST_BYTES // 1000} kB")


def drawn(name: str, shown: Sequence[tuple[str, str]], columns: int) -> str:
    """Returns commands and their output as SVG, with selectable text and no external resources."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for number, (command, output) in enumerate(shown):
        still = re.sub(r"\x1b\[[\d;?]*[A-HJKSTfhln]", "", output)  # without cursor movement and clearing
        console.print(Text.assemble("\n" if number else "", ("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(still), soft_wrap=True)
    text = console.export_svg(title="", theme=_THEME, code_format=_SVG, unique_id=name, font_aspect_ratio=0.6)
    return re.sub(r"(?m)[ \t]+$", "", text)


if __name__ == "__main__":
    main()
