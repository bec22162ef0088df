"""Fingerprints of programs, computed in a separate process, because the programs are untrusted.

A program is read as tokens. Names and strings become placeholders, and comments are dropped, so that renaming and
reformatting change nothing. From all sequences of ``kgram`` characters of these tokens, winnowing keeps one in each
window of ``window`` (Schleimer, Wilkerson and Aiken, SIGMOD 2003). It never misses a passage of ``kgram + window - 1``
characters that two programs share.

Of the copies in ``tests/audit/copies.py``, copydetect finds at least 95 % of the code, and of the honest programs there
at most 10 %. Dolos finds 23 to 37 % of the latter, because it compares syntax trees, and it needs Node.js.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import threading
from bisect import bisect_right
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Self

from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.audit.programs import notebook_code, without_magics
from pytest_mlebench.io.extensions import not_installed
from pytest_mlebench.io.values import loads

LIBRARY = "copydetect"
LANGUAGES = {".py": "python", ".ipynb": "python", ".r": "r", ".rmd": "r", ".irnb": "r", ".jl": "julia",
    ".ijlnb": "julia"}  # fmt: skip
"""Language by lower-case file suffix. Files with other suffixes are not compared."""
_NOTEBOOKS = (".ipynb", ".irnb", ".ijlnb")
MAX_CHARACTERS = 400_000
"""Maximum size of a program. Longer ones are not compared."""
_MAX_BYTES = 40 << 20
"""Maximum size of a request, which can hold a notebook with its images."""
_LINE = 1000
_CPU_SECONDS, _WALL_SECONDS = 30, 900.0
_MEMORY = 2 << 30
_SIMPLE = 4
"""Token sequences with at most this many different characters are ignored: long lists of values all look alike."""
_SHARED = re.compile(
    r"[ \t]*(?:(?:import|from)\s.*|(?:library|require)\(.*)"
    r"|.*\b(?:ArgumentParser|add_argument|parse_args|read_csv|to_csv)\("
)
"""Lines that unrelated programs share: imports, argument parsing, and reading and writing of files."""
_CHUNK = re.compile(r"^```\{r[^}\n]*\}[ \t]*\n(.*?)^```", re.M | re.S)


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Parameters of a comparison. ``kgram``, ``window`` and ``least`` count characters of tokens (see above).

    ``threshold`` is the minimum share of one program that must be in the other, and ``least`` its minimum size.
    """

    library: str = LIBRARY
    version: str = ""
    kgram: int = 30
    window: int = 15
    threshold: float = 0.6
    least: int = 250


@dataclass(frozen=True, kw_only=True)
class Fingerprints:
    """Fingerprints of a program. ``places`` maps hashes to positions in the tokens, ``lines`` positions to line ranges.

    Lines are counted from 1. ``text`` is the program as it was compared: for a notebook, the code of its cells.
    """

    text: str
    places: dict[int, list[int]]
    lines: dict[int, tuple[int, int]]


def default_parameters() -> Parameters:
    """Return the parameters with the library's version. Raises UsageError if it is not installed."""
    try:
        return Parameters(version=version(LIBRARY))
    except PackageNotFoundError:
        raise UsageError(not_installed("--plagiarism", "plagiarism")) from None


class Fingerprinter:
    """A context manager that computes fingerprints in a process with limited CPU time and memory."""

    def __init__(self, parameters: Parameters, *, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self.parameters = parameters
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def __call__(self, text: str, suffix: str, *, raw: bool = False) -> Fingerprints | None:
        """Return the fingerprints of a program; None if it is too large or exceeds the limits of the process.

        With ``raw``, ``text`` is the content of a notebook file; otherwise, it is the code of its cells.
        """
        if len(text) > MAX_CHARACTERS and not (raw and suffix in _NOTEBOOKS):
            return None
        request = json.dumps({"text": text, "suffix": suffix, "raw": raw, **asdict(self.parameters)}).encode()
        if len(request) > self._max_bytes:
            return None
        reply = self._reply_to(request + b"\n")
        if not isinstance(reply, dict):
            return None
        places: dict[int, list[int]] = {}
        lines: dict[int, tuple[int, int]] = {}
        for hash, place, first, last in reply["prints"]:
            places.setdefault(hash, []).append(place)
            lines[place] = (first, last)
        return Fingerprints(text=reply["text"], places=places, lines=lines)

    def _reply_to(self, request: bytes) -> Any:
        process = self._process = self._process or _start()
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(_WALL_SECONDS, process.kill)
        timer.daemon = True
        timer.start()
        try:
            process.stdin.write(request)
            process.stdin.flush()
            return loads(process.stdout.readline(_MAX_BYTES))
        except (OSError, ValueError):  # the process ended
            self._end()
            return None
        finally:
            timer.cancel()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def _start() -> subprocess.Popen[bytes]:
    boot = f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {__name__} import main; main()"
    # The library uses Python's hash(), which differs between processes unless its seed is fixed.
    environment = {**os.environ, "PYTHONHASHSEED": "0", "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1"}  # fmt: skip
    paths = json.dumps([os.path.abspath(path) for path in sys.path])  # noqa: PTH100 - "" is the current folder
    return subprocess.Popen(
        [sys.executable, "-P", "-W", "ignore", "-c", boot, paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


def main() -> None:
    """Run the process: read one request per line, and write one reply per line."""
    import copydetect  # noqa: F401 - before memory is limited

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while request := sys.stdin.buffer.readline(_MAX_BYTES):
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime) + _CPU_SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        try:
            reply = _reply(json.loads(request))
        except Exception:
            reply = None
        sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
        sys.stdout.buffer.flush()


def _reply(request: dict[str, Any]) -> dict[str, Any] | None:
    from copydetect.utils import filter_code, hashed_kgrams, winnow

    text, kgram = code_of_file(request["text"], request["suffix"], raw=request["raw"]), request["kgram"]
    if len(text) > MAX_CHARACTERS:
        return None
    # The lexer drops empty lines at both ends.
    whole = _without_shared(text)
    body = whole.lstrip("\n")
    dropped = len(whole) - len(body)
    tokens, offsets = filter_code(body, "", LANGUAGES[request["suffix"]])
    if len(tokens) < kgram:
        return {"text": text, "prints": []}
    hashes, selected = winnow(hashed_kgrams(tokens, kgram), request["window"], remove_duplicates=False)
    ends = [k for k, character in enumerate(body) if character == "\n"]
    starts, removed, most = [], [], 0
    for start, count in offsets.tolist():
        most = max(most, count)  # for a class, the library counts only the characters of its name
        starts.append(start)
        removed.append(most)

    def line(place: int) -> int:
        at = bisect_right(starts, place) - 1
        return bisect_right(ends, place + (removed[at] if at >= 0 else 0)) + 1 + dropped

    prints = [
        (int(hash), int(place), line(int(place)), line(int(place) + kgram - 1))
        for hash, place in zip(hashes, selected, strict=True)
        if len(set(tokens[place : place + kgram])) > _SIMPLE
    ]
    return {"text": text, "prints": prints}


def code_of_file(text: str, suffix: str, *, raw: bool) -> str:
    """Return the code of a file: the cells of a notebook without magics, or the chunks of R Markdown."""
    if raw and suffix in _NOTEBOOKS:
        text = notebook_code(text) or ""
    elif suffix == ".rmd":
        text = "\n".join(_CHUNK.findall(text))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return without_magics(text) if suffix in _NOTEBOOKS else text


def _without_shared(text: str) -> str:
    """Blank the lines that unrelated programs share. The other lines keep their numbers."""
    lines, is_open = text.split("\n"), False
    for k, line in enumerate(lines):
        if is_open or (len(line) <= _LINE and _SHARED.match(line)):
            opens = is_open or bool(re.match(r"\s*from\s+\S+\s+import\s*\(", line))
            is_open = opens and ")" not in line
            lines[k] = ""
    return "\n".join(lines)
