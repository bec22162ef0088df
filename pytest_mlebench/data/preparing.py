"""Runs a competition's ``prepare.py`` on real data, or on data from its ``synthetic.py`` or ``twin.py``.

Code of third-party competitions runs in a separate process, whose environment contains no secrets, and whose own
processes end with it. If the kernel supports Landlock, it can open only the competition's folder, the folders passed to
it, a temporary home, Python and the system's files (``python_paths``). From Linux 6.7, it cannot use TCP.

The private randomness of version 2 is derived from the data store's key (see ``authoring.corrections``), a file that
no agent sees. To get the same data in another store, copy this file there before preparing, or push and pull the
prepared data.

A twin's seed is drawn at random for each run group, and only the data folder contains it. Everything else identifies
twins by ``key``, a digest of the seed: a path, a command line or a manifest is not enough to reproduce the twin.

Prepared data is pulled from and pushed to URLs. ``DataSource`` is the contract for other distributions' sources.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import secrets
import signal
import stat
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from pytest_mlebench.catalog import Competition
from pytest_mlebench.catalog.competition import is_bundled, read_text
from pytest_mlebench.data.dataset import SIDES, Dataset
from pytest_mlebench.errors import CompetitionError, DataError, MLEBenchError, UsageError, reason
from pytest_mlebench.io import files
from pytest_mlebench.io.extensions import extensions, load_extension, not_installed, renamed
from pytest_mlebench.io.files import AnyPath
from pytest_mlebench.io.processes import Forked, ForkServer, read_only
from pytest_mlebench.io.progress import Reporter
from pytest_mlebench.io.units import first
from pytest_mlebench.io.values import loads, parse

if TYPE_CHECKING:
    from pytest_mlebench.data.download.transfers import RetryPolicy


REAL = "real"
SIZES = ("small", "medium", "micro")
FOLDER = "twins"
_SEED_BITS = 64
_RANDOM = "random"
_KEY = re.compile(r"k[0-9a-f]{16}")


def no_twin(competition: Competition) -> str:
    """Return the error message for a competition without twins."""
    return f"{competition.id} has no twin: {competition.file('twin.py')} is missing; choose --data=real"


def with_twins(competitions: Sequence[Competition], named: Collection[str] = ()) -> list[Competition]:
    """Return the competitions that have twins. Raises UsageError if none has one, or one in ``named`` has none."""
    found = [competition for competition in competitions if competition.has_twin]
    without = [competition for competition in competitions if not competition.has_twin]
    if errors := [no_twin(competition) for competition in without if not found or competition.id in named]:
        raise UsageError("\n".join(first(errors, 5)))
    return found


@dataclass(frozen=True)
class Twins:
    """The twins of one seed and size. ``run_seed`` is a run's seed with ``--twin-per-seed``, else None.

    >>> str(Twins(Twins.key_of(7), "micro"))
    'twin:kb172d948dbe0a16a:micro'
    """

    key: str
    size: str = SIZES[0]
    run_seed: int | None = None

    def __str__(self) -> str:
        return f"twin:{self.key}:{self.size}"

    @staticmethod
    def key_of(seed: int) -> str:
        return f"k{hashlib.sha256(f'twin {seed}'.encode()).hexdigest()[:16]}"

    @classmethod
    def of_record(cls, twin: Mapping[str, Any]) -> Twins:
        """Return the twins of a run's record. Raises DataError if it is invalid: records are untrusted input."""
        key, size, run_seed = (twin.get(name) for name in ("key", "size", "run_seed"))
        if not (isinstance(key, str) and _KEY.fullmatch(key)) or size not in SIZES:
            raise DataError("its record does not identify a twin")
        return cls(key, size, None if run_seed is None else int(run_seed))

    def folder(self, data_dir: Path) -> Path:
        """Return the twins' own data folder."""
        part = "" if self.run_seed is None else f"-{self.run_seed}"
        return data_dir / FOLDER / f"{self.key}-{self.size}{part}"

    def world_seed(self, data_dir: Path) -> int:
        """Return the seed for drawing worlds. Raises DataError if the data folder has no seed for the key."""
        seed = seed_of(self.key, data_dir)
        if self.run_seed is None:
            return seed
        return int.from_bytes(hashlib.sha256(f"run {self.run_seed} of twin {seed}".encode()).digest()[:8])


def parse_choice(text: str) -> str:
    """Return the full form of a value of ``--data``: ``real`` or ``twin:SEED:SIZE``.

    SEED can be a number, ``random`` or a key. Raises ValueError.

    >>> parse_choice("twin"), parse_choice("twin:7"), parse_choice("real")
    ('twin:random:small', 'twin:7:small', 'real')
    """
    kind, *rest = text.split(":")
    if kind == REAL and not rest:
        return REAL
    if kind != "twin" or len(rest) > 2:
        raise ValueError(f"{text!r} is not one of real, twin, twin:SEED, twin:SEED:SIZE")
    seed, size = (*rest, *(_RANDOM, SIZES[0])[len(rest) :])
    if not (seed == _RANDOM or _KEY.fullmatch(seed)):
        if not (seed.isascii() and seed.isdecimal() and int(seed) < 2**_SEED_BITS):
            raise ValueError(f"seed {seed!r} is neither an integer from 0 to 2^{_SEED_BITS} - 1 nor {_RANDOM!r}")
        seed = str(int(seed))
    if size not in SIZES:
        raise ValueError(f"size {size!r} is not one of {', '.join(SIZES)}")
    return f"twin:{seed}:{size}"


def resolve_choice(choice: str, data_dir: Path, *, known: str | None = None) -> str:
    """Return the choice with its seed replaced by a key, and store the seed in the data folder. Raises DataError.

    ``random`` reuses the ``known`` choice if the sizes match, and otherwise draws a seed."""
    if choice == REAL:
        return choice
    _, seed, size = choice.split(":")
    if seed == _RANDOM and known and known != REAL and known.split(":")[2] == size:
        return known
    if _KEY.fullmatch(seed):
        return choice
    number = secrets.randbits(_SEED_BITS) if seed == _RANDOM else int(seed)
    twins = Twins(Twins.key_of(number), size)
    file = _seed_file(twins.key, data_dir)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            _create_secret(file, f"{number}\n")
    except OSError as error:
        raise DataError(f"the seed of twins cannot be written: {file}: {reason(error)}") from error
    return str(twins)


def twins_of(choice: str, run_seed: int | None = None) -> Twins:
    _, key, size = choice.split(":")
    return Twins(key, size, run_seed)


def seed_of(key: str, data_dir: Path) -> int:
    """Return the seed of a key. Raises DataError if the data folder does not contain it."""
    file = _seed_file(key, data_dir)
    try:
        seed = int(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"the seed of the twins {key} is not in {file.parent}: they were made with another data folder; pass it "
            "with --data-dir, or the seed with --data=twin:SEED"
        ) from error
    if Twins.key_of(seed) != key:
        raise DataError(f"{file} contains the seed of other twins")
    return seed


def _seed_file(key: str, data_dir: Path) -> Path:
    return data_dir / FOLDER / f"{key}.seed"


VARIABLE = "MLEBENCH_DATA_SOURCE"
SOURCES = "mlebench.data_sources"
"""Entry points for sources, named by URL scheme: functions ``(url, retry policy) -> DataSource``."""
EXTRAS = {"s3": "s3", "gs": "gcs", "file": "", "https": "", "http": ""}
"""The extra of this package that each scheme requires."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_USER = re.compile(r"(?<=://)[^/\s]*@")
_URL = re.compile(
    r"([a-z][a-z0-9+.-]*://)([^/?#]*@)?((?:\[[^]]*\]|[^:/?#]*)(?::\d*)?(?:/[^?#]*)?)(?:[?#].*)?",
    re.IGNORECASE | re.DOTALL,
)
"""Its groups are the scheme, the login, and the rest without the query and the fragment."""


def check(text: str) -> str:
    """Return the URL without trailing slashes. Raises ValueError if it is not accepted."""
    shown = shown_url(text)
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port  # both are validated only when they are read
    except ValueError as error:  # its message may contain the password
        raise ValueError(f"{shown!r} is not a URL: its host or port is invalid") from error
    if url.scheme not in {*EXTRAS, *extensions(SOURCES)} or not text.startswith(f"{url.scheme}://"):
        raise ValueError(f"{shown!r} is not a URL of s3://, gs://, https:// or file://; write a folder as file:///data")
    if url.query or url.fragment:
        raise ValueError(f"{shown!r}: the URL must be that of a folder, without ? and #")
    if url.scheme == "file" and (host or not url.path.startswith("/")):
        raise ValueError(f"{shown!r}: write a folder with three slashes and its absolute path, as in file:///data")
    if url.scheme != "file" and not host:
        raise ValueError(f"{shown!r} has no {'bucket' if url.scheme in ('s3', 'gs') else 'host'}")
    if url.scheme == "http" and host not in _LOOPBACK:
        raise ValueError(
            f"{shown!r}: http:// is not accepted, because others could change the data on the way; use https://"
        )
    return text.rstrip("/")


def shown_url(url: str) -> str:
    """Return a URL for a message, without the parts that may be secret: login, query and fragment.

    It is ``***`` if it is invalid and may have a password, which could end anywhere.
    """
    if match := _URL.fullmatch(url):
        return f"{match[1]}{'***@' if match[2] else ''}{match[3]}"
    return "***" if re.search(":.*@", url, re.DOTALL) else url.partition("?")[0]


def redacted(url: str) -> str:
    """Return a URL, or text that contains URLs, with user names and passwords masked."""
    return _USER.sub("***@", url)


def with_password(url: str) -> str:
    """Restore the user and password of a redacted URL from ``$MLEBENCH_DATA_SOURCE``, if it is the same URL."""
    known = os.environ.get(VARIABLE, "").strip().rstrip("/")
    return known if "***@" in url and redacted(known) == url else url


class NotPushed(DataError):
    """A source has no data for the competition."""


class Head(Protocol):
    """Summary of a competition's data in a source: total bytes, origin of the description, digest of all files."""

    @property
    def size(self) -> int: ...
    @property
    def description(self) -> str | None: ...
    @property
    def digest(self) -> str: ...


class DataSource(Protocol):
    """A place with prepared data. Methods raise a DataError that shows the URL without its password."""

    url: str
    """Without user and password."""

    def head(self, competition: Competition, reporter: Reporter) -> Head:
        """Return the summary of a competition's data; raises NotPushed if there is none."""

    def bytes_there(self, work: Path) -> int:
        """Return how many bytes an interrupted ``pull`` has left in its folder."""

    def pull(
        self,
        competition: Competition,
        head: Head,
        work: Path,
        reporter: Reporter,
        only: Collection[str] = SIDES,
    ) -> Path:
        """Pull all files into ``work``, or ``only`` some: ``public``, ``private`` or files such as
        ``public/description.md``. Returns the folder below ``work`` that contains ``public`` and ``private``."""

    def push(self, dataset: Dataset, *, replace: bool, reporter: Reporter) -> int:
        """Upload missing files, and return their number."""


def open_source(url: str, policy: RetryPolicy | None = None) -> DataSource:
    """Open the source of a URL; ``policy`` says how often requests are retried.

    Raises DataError if no installed distribution supports the URL's scheme, UsageError if the URL is invalid."""
    scheme = url.partition("://")[0]
    create: Callable[[str, RetryPolicy | None], DataSource] | None = load_extension(SOURCES, scheme)
    if create is None:
        raise DataError(f"{redacted(url)}: {not_installed(f'{scheme}://')}")
    return create(url, policy)


_VARIABLES = frozenset(
    "PATH LANG LANGUAGE TZ LD_LIBRARY_PATH PYTHONHASHSEED PYTHONPYCACHEPREFIX PYTHONDONTWRITEBYTECODE PYTHONWARNINGS "
    "OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS".split()
)
"""Environment variables that a competition's code can see, apart from ``LC_*``: known to contain no secrets."""
ERRORS: Mapping[str, type[MLEBenchError]] = {"CompetitionError": CompetitionError, "DataError": DataError}
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/dev/null", "/dev/urandom", "/dev/zero")
_MAX_REPLY = 64 << 20
_MAX_TEXT = 20_000
# One thread: the results must not depend on the machine, and forking a process with threads is unsafe.
ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1") | {
    "JOBLIB_MULTIPROCESSING": "0"
}
_PRELOADED = ("pandas", "pytest_mlebench.authoring.corrections")
_HEAVY = re.compile(
    r"^from ((?:scipy|sklearn|pytest_mlebench\.authoring\.(?:metrics|resampling))\b[\w.]{0,99}) import", re.MULTILINE
)
_MAX_HEAVY = 99
_server: ForkServer | None = None
_starting = threading.Lock()


def is_third_party(competition: Competition) -> bool:
    """Return whether a competition's code is not part of this package."""
    return not is_bundled(competition.folder)


def call(
    function: Callable[..., Any],
    competition: Competition,
    *arguments: Any,
    kind: Any = Any,
    read: Iterable[Path] = (),
    write: Iterable[Path] = (),
) -> Any:
    """Call a function of this package with a competition and arguments, and return its result.

    For third-party competitions, the call happens in a confined process, and ends its processes. Arguments and results
    are then JSON; paths become strings. The process can read the competition's folder and ``read``, and write to
    ``write``. The code can reply anything: the result is parsed as a ``kind`` (see ``io.values.parse``). Errors are
    raised as DataError or CompetitionError.
    """
    if not is_third_party(competition):
        return parse(kind, function(competition, *arguments))
    with files.scratch() as home:
        job = {
            "function": f"{function.__module__}:{function.__name__}",
            "competition": str(competition.folder.resolve()),
            "version": competition.version,
            "arguments": arguments,
            "home": home,
            "modules": [str(Path(entry).absolute()) for entry in sys.path],
            "read": [str(path.resolve()) for path in read],
            "write": [str(path.resolve()) for path in (*write, Path(home))],
        }
        try:
            text, status = _reply(
                json.dumps(job, default=lambda path: str(path.absolute())).encode(),
                [*_PRELOADED, *heavy_imports(competition.folder.glob("**/*.py"))],
            )
        except OSError as failure:
            raise CompetitionError(f"{competition.id}: cannot start a process: {reason(failure)}") from failure
    try:
        reply = parse(_Reply, loads(text))
    except ValueError as error:
        ended = f"signal {-status}" if status < 0 else f"exit status {status}"
        raise CompetitionError(
            f"{competition.id}: the process for its code ended with {ended} and no result"
        ) from error
    if reply.error is not None:
        raise ERRORS.get(reply.kind, CompetitionError)(reply.error[:_MAX_TEXT])
    try:
        return parse(kind, reply.result)
    except ValueError as error:
        raise CompetitionError(f"{competition.id}: the process for its code gave an invalid result: {error}") from error


@dataclass(frozen=True)
class _Reply:
    """The reply of a confined process: the result, or the message and the kind of an error."""

    result: Any
    error: str | None = None
    kind: str = ""


def _reply(job: bytes, preload: Sequence[str]) -> tuple[bytes, int]:
    """Return a process's reply to its job, and its exit status. Raises OSError."""
    job_reader, job_writer = os.pipe()
    reply_reader, reply_writer = os.pipe()
    with os.fdopen(job_writer, "wb") as jobs, os.fdopen(reply_reader, "rb") as replies:
        try:
            process = fork(do_confined, (job_reader, 1, 2, reply_writer), preload)
        finally:
            os.close(job_reader)
            os.close(reply_writer)
        try:
            with suppress(BrokenPipeError), jobs:
                jobs.write(job)
            reply = replies.readline(_MAX_REPLY)
        finally:
            try:
                status = process.end()
            except OSError:  # what the code has detached may still change files
                reply, status = b"", -signal.SIGKILL
    return reply, status


def fork(function: Callable[..., None], descriptors: Sequence[int], preload: Sequence[str]) -> Forked:
    """Call a function in a process without secrets in its environment (see ``ForkServer.fork``). Raises OSError."""
    try:
        return _fork_server().fork(function, descriptors, preload)
    except OSError:  # the server was killed
        restart_fork_server()
        return _fork_server().fork(function, descriptors, preload)


def _fork_server() -> ForkServer:
    global _server
    plain = {name: value for name, value in os.environ.items() if name in _VARIABLES or name.startswith("LC_")}
    environment = plain | ENVIRONMENT
    with _starting:
        server = _server
        if server is None or server.environment != environment:
            server = _server = ForkServer(environment)
        return server


def restart_fork_server() -> None:
    """Make the next call start a new interpreter, in which sets have a different order."""
    global _server
    _server = None


def _reset_after_fork() -> None:
    """Forget the parent's server and lock in a forked child."""
    global _starting
    _starting = threading.Lock()
    restart_fork_server()


os.register_at_fork(after_in_child=_reset_after_fork)


def do_confined(replies: int) -> None:
    """Run the job from standard input in the confined process, and write its result or error as JSON to the pipe."""
    job = json.load(sys.stdin.buffer)
    os.environ |= {"HOME": job["home"], "TMPDIR": job["home"]}
    sys.path[:] = job["modules"]
    if numpy := sys.modules.get("numpy"):  # otherwise, each process would draw the same numbers
        numpy.random.seed()
    module, _, name = job["function"].partition(":")
    function = getattr(importlib.import_module(module), name)
    folder = Path(job["competition"])
    readable = [folder, *map(Path, job["read"]), *python_paths()]
    read_only(readable, writable=map(Path, job["write"]), listable=map(Path, sys.path))  # imports list these folders
    reply: dict[str, Any]
    try:
        reply = {"result": function(Competition.load(folder, version=job["version"]), *job["arguments"])}
    except MLEBenchError as error:
        reply = {"result": None, "error": str(error), "kind": type(error).__name__}
    except KeyboardInterrupt:  # raised by the code: Ctrl-C reaches only the harness
        reply = {"result": None, "error": f"{folder.name}: its code raised KeyboardInterrupt"}
    with suppress(Exception):  # the code may have closed it
        sys.stdout.flush()
    with os.fdopen(replies, "wb") as file:
        file.write(json.dumps(reply).encode() + b"\n")
    os._exit(0)  # without waiting for threads that the code has started


def heavy_imports(modules: Iterable[Path]) -> list[str]:
    """Return the slow-to-import modules that a competition's modules import from."""
    found = []
    for path in modules:
        with suppress(CompetitionError):  # importing the module reports the error
            found += _HEAVY.findall(read_text(path))
    return list(dict.fromkeys(found))[:_MAX_HEAVY]


def python_paths() -> Iterator[Path]:
    """Yield the paths that Python and its packages need; other folders on ``sys.path`` are excluded."""
    yield from map(Path, (*_SYSTEM, sys.prefix, sys.base_prefix))
    yield Path(__file__).parents[1]
    for entry in map(Path, sys.path):
        if entry.name in ("site-packages", "dist-packages") or entry.suffix == ".zip":
            yield entry


_SHOWN_NAMES = 8
_MAX_LEVELS = 100


def make_synthetic(competition: Competition, raw: Path, seed: int) -> None:
    """Let ``synthetic.py`` generate raw data in an empty folder; raises CompetitionError with the line that failed."""
    competition.require_modules()
    call(make_synthetic_here, competition, raw, seed, write=[raw])
    _check_tree(f"{competition.id}: synthetic.py", raw, raw)


def make_synthetic_here(competition: Competition, raw: AnyPath, seed: int) -> None:
    call_module(competition, "synthetic", "make", Path(raw), seed)


def call_module(competition: Competition, module: str, name: str, *arguments: Any) -> Any:
    """Call a function of ``synthetic.py`` or ``twin.py`` here; raises CompetitionError with the line that failed."""
    function = competition.function(module, name)
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        raise CompetitionError(f"{competition.id}: {module}.py raised {competition.describe_error(error)}") from error


def run_prepare(
    competition: Competition, raw: Path, dataset: Dataset, *, maker: str = "", key: bytes | None = None
) -> None:
    """Run a competition's ``prepare`` from ``raw`` into the folder of an empty dataset; adds the bundled description.

    ``maker`` names the program that generated ``raw``, if any; ``key`` is the key of private randomness (see
    ``data.preparing``). Raises DataError that names the missing file or the cause.
    """
    competition.require_modules()
    arguments = (raw, dataset.folder, maker, key.hex() if key else None)
    call(prepare_here, competition, *arguments, read=[raw], write=[dataset.folder])
    check_prepared(dataset)


def check_prepared(dataset: Dataset) -> None:
    """Check that the prepared data has all required files, and only files and folders; raises DataError.

    The code can write to the whole folder, whose files this process then reads or replaces without being confined: it
    would follow links, and wait for a pipe's writer.
    """
    id = dataset.competition.id
    for path in dataset.required:
        if not path.is_file():
            raise DataError(f"{id}: prepare.py did not write {path.relative_to(dataset.prepared)}")
    _check_tree(f"{id}: prepare.py", dataset.folder, dataset.prepared)


def _check_tree(program: str, folder: Path, below: Path) -> None:
    """Check that a program has created only files and folders in ``folder`` and everywhere ``below``.

    Raises DataError, also for folders that are nested too deeply or cannot be read.
    """
    try:
        for path in chain(folder.iterdir(), map(Path, files.entries_below(below, ignore_errors=False))):
            mode, name = path.lstat().st_mode, path.relative_to(folder)
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                kind = "symbolic link" if stat.S_ISLNK(mode) else "special file"
                raise DataError(f"{program} created the {kind} {name}; it may create only files and folders")
            if len(name.parts) > _MAX_LEVELS:
                shown = Path(*name.parts[:3])
                raise DataError(f"{program} nested folders deeper than {_MAX_LEVELS} levels in {shown}")
    except OSError as error:
        raise DataError(f"{program} created files that cannot be read: {reason(error)}") from error


def prepare_here(competition: Competition, raw: AnyPath, folder: AnyPath, maker: str, key: str | None = None) -> None:
    """Run the competition's code for ``run_prepare`` in this process. ``key`` is hexadecimal."""
    dataset = Dataset(competition, Path(folder))
    for side in (dataset.public, dataset.private):
        side.mkdir(parents=True)
    try:
        from pytest_mlebench.authoring.corrections import keyed  # which imports pandas

        with keyed(bytes.fromhex(key) if key else None):
            competition.function("prepare", "prepare")(Path(raw), dataset.public, dataset.private)
        if not (dataset.public / "description.md").exists() and competition.description.is_file():
            (dataset.public / "description.md").write_text(read_description(competition), encoding="utf-8", newline="")
    except (Exception, SystemExit) as error:
        source = f" on the data of {maker}" if maker else f"; is {raw} the complete, unpacked download?"
        if isinstance(error, FileNotFoundError):
            names = sorted(path.name for path in Path(raw).glob("*"))
            shown = ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
            source = f"; {maker or 'the raw data'} has {shown or 'no files'}"
        raise _as_data_error(competition, error, source, dataset.folder) from error


def read_description(competition: Competition) -> str:
    """Return the task description for agents. Raises DataError if the file is empty or not text."""
    try:
        text = read_text(competition.description)
    except CompetitionError as error:
        raise DataError(str(error)) from error
    if "\0" in text:
        raise DataError(f"{competition.description} is not text: agents read the task there")
    if not text.strip():
        raise DataError(f"{competition.description} is empty: agents read the task there")
    return text


def _as_data_error(competition: Competition, error: BaseException, source: str, folder: Path) -> DataError:
    if files.is_disk_full(error, folder):
        return files.disk_full(competition.id, folder.parent)
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
    """Return the competition's key, derived from the key of the store at ``root``; None for version 1.

    Creates the store's key if there is none. Version 1 splits data as the reference does, with fixed seeds. Raises
    OSError, and DataError if the file does not contain a key.
    """
    if not competition.is_corrected:
        return None
    path = root / KEY_FILE
    if not path.exists():
        _create_secret(path, secrets.token_hex(32) + "\n")
    text = path.read_text(encoding="ascii", errors="replace").strip()
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise DataError(
            f"{path} is not a key of 64 hexadecimal digits. Restore it from a copy; or remove it, and a new key is "
            "created, which splits version 2 of each competition differently from then on"
        )
    return hashlib.blake2b(competition.id.encode(), key=bytes.fromhex(text), digest_size=32).digest()


def _create_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read, atomically, unless another process has created it."""
    new = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(file, "w", encoding="ascii") as secret:
            secret.write(text)
            secret.flush()
            os.fsync(secret.fileno())
        try:
            path.hardlink_to(new)
        except FileExistsError:
            pass
        except OSError:  # the file system has no hard links
            if not path.exists():
                new.rename(path)
    finally:
        new.unlink(missing_ok=True)


renamed(__name__, "0.4", {"Source": "DataSource"})
