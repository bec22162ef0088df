"""Running a competition's ``prepare.py`` into an empty folder, on real data or on that of its ``synthetic.py`` or
``twin.py``.

Code of competitions that do not come with the package runs in a process of its own, whose environment holds no secrets.
Where the kernel has Landlock, it opens only the competition's folder, the folders that it is given, Python and the
system's libraries, and speaks TCP with nobody.

The private randomness of version 2 follows from the data store's key (see ``authoring.corrections``), a file that no
agent sees. To get the same data in another store, copy this file there before preparing, or push and pull the
prepared data.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_mlebench.authoring.corrections import keyed
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.errors import CompetitionError, DataError, MLEBenchError, reason
from pytest_mlebench.io import disk
from pytest_mlebench.io.files import bundled

_VARIABLES = frozenset(
    "PATH LANG LANGUAGE TZ LD_LIBRARY_PATH PYTHONHASHSEED PYTHONPYCACHEPREFIX PYTHONDONTWRITEBYTECODE PYTHONWARNINGS "
    "OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS".split()
)
_ERRORS: Mapping[str, type[MLEBenchError]] = {"CompetitionError": CompetitionError, "DataError": DataError}
_MAX_REPLY = 64 << 20
_MAX_TEXT = 20_000
_BOOT = (
    "import json, sys; job = json.loads(sys.stdin.buffer.read()); sys.path[:] = job['modules']; "
    "from pytest_mlebench.grading.confined import main; main(job)"
)


def plain_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that a competition's code gets: those that are known to hold no secret."""
    return {name: value for name, value in environment.items() if name in _VARIABLES or name.startswith("LC_")}


def is_third_party(competition: Competition) -> bool:
    """Whether a competition's code comes from elsewhere than the package."""
    return not competition.folder.resolve().is_relative_to(bundled("competitions").resolve())


def call(
    function: Callable[..., Any],
    competition: Competition,
    *arguments: Any,
    read: Iterable[Path] = (),
    write: Iterable[Path] = (),
) -> Any:
    """What a function of ours returns for a competition and arguments, called in a confined process.

    Arguments and results are JSON. The competition's code can read its own folder and ``read``, and write to ``write``.
    Raises what the function raises if that is a CompetitionError or DataError, else CompetitionError.
    """
    with tempfile.TemporaryDirectory(prefix="mlebench-") as home:
        job = {
            "function": f"{function.__module__}:{function.__name__}",
            "competition": str(competition.folder.resolve()),
            "version": competition.version,
            "arguments": arguments,
            "modules": [str(Path(entry).absolute()) for entry in sys.path],
            "read": [str(path.resolve()) for path in read],
            "write": [str(path.resolve()) for path in (*write, Path(home))],
        }
        text, status = _reply(json.dumps(job).encode(), home)
    try:
        reply = json.loads(text)
        error = reply.get("error")
        if error is None:
            return reply["result"]
        raised = _ERRORS.get(str(error[0]), CompetitionError)(str(error[1])[:_MAX_TEXT])
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
        ended = f"signal {-status}" if status < 0 else f"exit status {status}"
        raised = CompetitionError(f"{competition.id}: the process of its code ended with {ended} and no result")
    raise raised


def _reply(job: bytes, home: str) -> tuple[bytes, int]:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as replies:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOT, str(writer), str(os.getpid())],
            stdin=subprocess.PIPE,
            env=plain_environment() | {"HOME": home, "TMPDIR": home, "JOBLIB_MULTIPROCESSING": "0"},
            cwd="/",
            pass_fds=[writer],
            start_new_session=True,  # Ctrl-C is the harness's to handle
        )
        os.close(writer)
        try:
            assert process.stdin is not None
            with suppress(BrokenPipeError), process.stdin as orders:
                orders.write(job)
            text = replies.read(_MAX_REPLY)
            process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return text, process.returncode


_SHOWN_NAMES = 8


def make_synthetic(competition: Competition, raw: Path, seed: int) -> None:
    """Have ``synthetic.py`` make raw data in an empty folder; raises CompetitionError with the line that failed."""
    if is_third_party(competition):
        competition.require_modules()
        call(make_synthetic_here, competition, str(raw.absolute()), seed, write=[raw])
    else:
        make_synthetic_here(competition, str(raw), seed)


def make_synthetic_here(competition: Competition, raw: str, seed: int) -> None:
    """As ``make_synthetic``, in this process."""
    call_module(competition, "synthetic", "make", Path(raw), seed)


def call_module(competition: Competition, module: str, name: str, *arguments: Any) -> Any:
    """Call a function of ``synthetic.py`` or ``twin.py`` in this process; raises CompetitionError with the line that
    failed."""
    function = competition.function(module, name)
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        raise CompetitionError(f"{competition.id}: {module}.py raised {competition.describe_error(error)}") from error


def run_prepare(
    competition: Competition, raw: Path, dataset: Dataset, *, maker: str = "", key: bytes | None = None
) -> None:
    """Run a competition's ``prepare`` from ``raw`` into the folder of an empty dataset; adds the bundled description.

    ``maker`` names the program that made ``raw``, if one did; ``key`` is that of private randomness (see
    ``data.preparing``). Raises DataError that names what is missing or failed.
    """
    text = key.hex() if key else None
    if is_third_party(competition):
        competition.require_modules()
        arguments = (str(raw.absolute()), str(dataset.folder.absolute()), maker, text)
        call(prepare_here, competition, *arguments, read=[raw], write=[dataset.folder])
    else:
        prepare_here(competition, str(raw), str(dataset.folder), maker, text)
    check_prepared(dataset)


def check_prepared(dataset: Dataset) -> None:
    """See that the prepared data has all that a dataset needs, and no links; raises DataError."""
    id = dataset.competition.id
    for path in dataset.required:
        if not path.is_file():
            raise DataError(f"{id}: prepare.py did not write {path.relative_to(dataset.prepared)}")
    for path in dataset.prepared.rglob("*"):
        if path.is_symlink():
            raise DataError(f"{id}: prepare.py made the link {path.relative_to(dataset.prepared)}")


def prepare_here(competition: Competition, raw: str, folder: str, maker: str, key: str | None = None) -> None:
    """The part of ``run_prepare`` that runs the competition's code, in this process. ``key`` is hexadecimal."""
    dataset = Dataset(competition, Path(folder))
    for side in (dataset.public, dataset.private):
        side.mkdir(parents=True)
    try:
        with keyed(bytes.fromhex(key) if key else None):
            competition.function("prepare", "prepare")(Path(raw), dataset.public, dataset.private)
        if not (dataset.public / "description.md").exists() and competition.description.is_file():
            (dataset.public / "description.md").write_text(_description(competition), encoding="utf-8", newline="")
    except (Exception, SystemExit) as error:
        source = f" on the data of {maker}" if maker else f"; is {raw} the complete, unpacked download?"
        if isinstance(error, FileNotFoundError):
            source = f"; {maker or 'the raw data'} has {_listed(Path(raw))}"
        raise _translated(competition, error, source, dataset.folder) from error


def _listed(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    return ", ".join([*names[:_SHOWN_NAMES], *["…"][: len(names) > _SHOWN_NAMES]]) or "no files"


def _description(competition: Competition) -> str:
    """What agents read of the task. Raises DataError where the file holds no text."""
    try:
        with competition.description.open(encoding="utf-8", newline="") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise DataError(f"{competition.description}: {reason(error)}") from error
    if "\0" in text:
        raise DataError(f"{competition.description} is not text: agents read the task there")
    if not text.strip():
        raise DataError(f"{competition.description} is empty: agents read the task there")
    return text


def _translated(competition: Competition, error: BaseException, source: str, folder: Path) -> DataError:
    if disk.is_full(error, folder):
        return disk.full(competition.id, folder.parent)
    if isinstance(error, MLEBenchError):
        return DataError(f"{competition.id}: {error}")
    if isinstance(error, OSError):
        name = f" ({error.filename})" if error.filename else ""
        place = f" in {found}" if (found := competition.place_of(error)) else ""
        has = source if isinstance(error, FileNotFoundError) else ""
        return DataError(f"{competition.id}: preparation stopped: {error.strerror or error}{name}{place}{has}")
    return DataError(f"{competition.id}: prepare.py raised {competition.describe_error(error)}{source}")


KEY_FILE = "private.key"


def key_of(competition: Competition, root: Path) -> bytes | None:
    """The competition's key in the store below ``root``, which is made if there is none; None for version 1.

    The first version splits data as the reference does, with fixed seeds. Raises OSError, and DataError for a file
    that is not a key.
    """
    if not competition.is_corrected:
        return None
    path = root / KEY_FILE
    if not path.exists():
        _make(path)
    text = path.read_text(encoding="ascii", errors="replace").strip()
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise DataError(
            f"{path} is not a key of 64 hexadecimal digits. Restore it from a copy; or remove it, and a new one is "
            "made, with which version 2 of each competition is split in another way from then on"
        )
    return hashlib.blake2b(competition.id.encode(), key=bytes.fromhex(text), digest_size=32).digest()


def _make(path: Path) -> None:
    """Write a new key, complete or not at all, unless another process is faster."""
    new = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(file, "w", encoding="ascii") as key:
            key.write(secrets.token_hex(32) + "\n")
            key.flush()
            os.fsync(key.fileno())
        try:
            path.hardlink_to(new)
        except FileExistsError:
            pass
        except OSError:  # the file system has no hard links
            if not path.exists():
                new.rename(path)
    finally:
        new.unlink(missing_ok=True)
