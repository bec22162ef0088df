"""Mutation testing: makes one random change at a time and checks that a test fails.

    python -m tools.mutate llm/budget.py --number=200 --seed=1
    python -m tools.mutate --all                      # every module of mutation.toml

``mutation.toml`` lists the tests of each module, the modules that are only changed up to a class, and equivalent
mutants (changes that no test can detect). Tests run in a temporary copy of the project, in processes forked after the
libraries are imported. Surviving mutants are printed. The exit status is 1 if the share of detected changes is below
``--least``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from tools.mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "pytest_mlebench"
CONFIGURATION = ROOT / "tools/mutation.toml"
_COPIED = (PACKAGE, "tests", "tools", "conftest.py", "pyproject.toml")


@dataclass
class Slot:
    """A copy of the project in which one change at a time is tested."""

    folder: Path
    pid: int = 0
    mutant: Mutant | None = None
    started: float = field(default=0.0)

    def start(self, mutant: Mutant | None, path: Path, tests: list[str]) -> None:
        (self.folder / path).write_text(mutant.source if mutant else (ROOT / path).read_text())
        for stale in (self.folder / path).parent.glob(f"__pycache__/{path.stem}.*"):
            stale.unlink()
        self.mutant, self.started, self.pid = mutant, time.monotonic(), os.fork()
        if self.pid == 0:
            os.setsid()
            os._exit(_run_tests(self.folder, tests))

    def end(self, seconds: float) -> int | None:
        """The tests' exit status; None while they run."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid and time.monotonic() - self.started < seconds:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if not pid:
            os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status) if pid else -signal.SIGKILL


def _run_tests(folder: Path, tests: list[str]) -> int:
    import pytest

    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    os.environ["PYTHONPATH"] = str(folder)
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    options = ["-x", "-q", "-n0", "--tb=no", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
    return int(pytest.main([*options, f"--basetemp={folder / 'tmp'}", *tests]))


def _copy(folder: Path) -> None:
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.name in _COPIED and path.is_dir():
            shutil.copytree(path, folder / path.name, symlinks=True)
        elif path.name in _COPIED:
            shutil.copy2(path, folder / path.name)
        elif not path.name.startswith("."):
            (folder / path.name).symlink_to(path)


def _import_libraries(folder: Path, tests: list[str]) -> None:
    """Import the libraries that the tests use, then drop the project's modules from ``sys.modules``."""
    before = os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    import pytest

    sys.path.insert(0, str(folder))
    os.chdir(folder)
    pytest.main(["--collect-only", "-q", "-n0", "-p", "no:cacheprovider", *tests])
    os.dup2(before, 1)
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] in (PACKAGE, "tests", "conftest")]:
        del sys.modules[name]


@dataclass
class Result:
    """Result of the changes of one module."""

    noticed: int = 0
    survived: int = 0
    equivalent: int = 0

    @property
    def share(self) -> float:
        return 100 * self.noticed / max(1, self.noticed + self.survived)


def _before(path: Path, end: str | None) -> list[Mutant]:
    """The changes of a module before the class ``end``, or all."""
    lines = path.read_text().splitlines()
    last = len(lines) if end is None else next(n for n, line in enumerate(lines) if line.startswith(f"class {end}("))
    return [mutant for mutant in mutants(path) if mutant.line <= last]


def try_out(
    name: str, tests: list[str], end: str | None, known: set[tuple[str, str]], options: argparse.Namespace
) -> Result:
    """Change one module, and print the changes that no test detected."""
    path = Path(PACKAGE) / name
    every = _before(ROOT / path, end)
    chosen = random.Random(options.seed).sample(every, min(options.number, len(every)))
    waiting = [mutant for mutant in chosen if mutant.change not in known]
    result = Result(equivalent=len(chosen) - len(waiting))
    with tempfile.TemporaryDirectory(prefix="mutate-") as temporary:
        slots = [Slot(Path(temporary).resolve() / str(n)) for n in range(options.jobs)]
        for slot in slots:
            _copy(slot.folder)
        _import_libraries(slots[0].folder, tests)
        slots[0].start(None, path, tests)
        while (status := slots[0].end(600)) is None:
            time.sleep(0.02)
        if status:
            raise SystemExit(f"{name}: its tests fail without any change:\n{(slots[0].folder / 'output').read_text()}")
        patience, free = 20 + 5 * (time.monotonic() - slots[0].started), set(range(len(slots)))
        while waiting or len(free) < len(slots):
            for n, slot in enumerate(slots):
                if n not in free and (status := slot.end(patience)) is not None and slot.mutant is not None:
                    free.add(n)
                    result.noticed += status != 0
                    if status == 0:
                        result.survived += 1
                        print(f"{path}:{slot.mutant.line}", *slot.mutant.diff, sep="\n    ", flush=True)
                if n in free and waiting:
                    free.remove(n)
                    slot.start(waiting.pop(), path, tests)
            time.sleep(0.02)
        os.chdir(ROOT)
    return result


def main() -> int:
    configuration = tomllib.loads(CONFIGURATION.read_text())
    modules: dict[str, list[str]] = configuration["tests"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"any of {', '.join(modules)}")
    parser.add_argument("--all", action="store_true", help="all these modules")
    parser.add_argument("--number", type=int, default=200, help="changes per module (200)")
    parser.add_argument("--seed", type=int, default=0, help="seed that selects the changes (0)")
    parser.add_argument("--jobs", type=int, default=2, help="changes to test in parallel (2)")
    parser.add_argument("--least", type=float, default=95, help="required share of detected changes, in per cent (95)")
    options = parser.parse_args()
    if unknown := [name for name in options.modules if name not in modules]:
        parser.error(f"tools/mutation.toml names no tests for {', '.join(unknown)}")
    too_few = False
    for name in modules if options.all else options.modules:
        known = {(entry["was"], entry["is"]) for entry in configuration["equivalent"] if entry["module"] == name}
        result = try_out(name, modules[name], configuration["ends"].get(name), known, options)
        too_few |= result.share < options.least
        print(
            f"{name}: {result.share:.1f} % detected ({result.noticed} of {result.noticed + result.survived} changes, "
            f"{result.equivalent} known to be equivalent; seed {options.seed})",
            flush=True,
        )
    return int(too_few)


if __name__ == "__main__":
    sys.exit(main())
