"""A competition: a folder with ``competition.yaml`` and the short modules that prepare, grade and imitate its data.

A module imports its neighbours with ``from .labels import VOTES``. A module of a later version, in a subfolder, imports
the common ones with ``from .. import prepare as first`` or ``from ..labels import VOTES``.
"""

from __future__ import annotations

import importlib
import math
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any, cast
from urllib.parse import quote

from pytest_mlebench import defaults
from pytest_mlebench.catalog import schema
from pytest_mlebench.catalog.schema import Leaderboard
from pytest_mlebench.errors import CompetitionError, reason
from pytest_mlebench.io.files import AnyPath, bundled, expanded, read_regular
from pytest_mlebench.io.values import loads, parse

_lock = RLock()
_sources: dict[str, object] = {}
"""The state of each imported folder's files, to reimport them after a change."""


def import_file(folder: Path, path: Path) -> ModuleType:
    """Import a Python file in a competition's folder, or in a version's subfolder.

    Modules are cached until one of the folder's files changes. Raises whatever the import raises.
    """
    # Unique even if folders share an id.
    package = f"competition:{quote(os.fsencode(folder.resolve())).replace('.', '%2E')}"
    files = sorted([*folder.glob("*.py"), *folder.glob("*/*.py")])
    with _lock:
        sources = [(file, (stat := file.stat()).st_mtime_ns, stat.st_size) for file in files]
        if package not in sys.modules or _sources.get(package) != sources:
            for imported in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
                del sys.modules[imported]
            importlib.invalidate_caches()
            _add_package(package, folder.resolve())
            _sources[package] = sources
        return importlib.import_module(".".join([package, *path.relative_to(folder).with_suffix("").parts]))


def _add_package(name: str, folder: Path) -> None:
    """Add a folder to ``sys.modules`` as a package; Python finds its modules through ``__path__``."""
    init = folder / "__init__.py"
    if not init.is_file():
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__path__ = [str(folder)]
    elif spec := spec_from_file_location(name, init, submodule_search_locations=[str(folder)]):
        sys.modules[name] = module_from_spec(spec)
        if spec.loader:
            spec.loader.exec_module(sys.modules[name])


def is_bundled(folder: Path) -> bool:
    """Return whether a competition's folder is part of this package."""
    return folder.resolve().is_relative_to(bundled("competitions").resolve())


MAX_TEXT_BYTES = 4 << 20
"""Maximum size of each text file in a competition's folder."""


def read_text(path: Path) -> str:
    """The text of a file in a competition's folder, with its line ends. Links of third-party competitions are not
    followed; an installer may link the bundled files.

    Raises CompetitionError if it is missing, not a regular file, too large, or not UTF-8.
    """
    try:
        return read_regular(path, MAX_TEXT_BYTES, follow_links=is_bundled(path.parent))
    except FileNotFoundError as error:
        raise CompetitionError(f"{path} is missing") from error
    except (OSError, ValueError) as error:
        raise CompetitionError(f"{path}: {reason(error)}") from error


FILE_NAME = "competition.yaml"
KERNELS = "kernels.json"
OBFUSCATED = "description_obfuscated.md"
VERSIONS = defaults.VERSIONS
FIRST = VERSIONS[0]
_TWIN = " twin"
_KERNEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}/[A-Za-z0-9_-]{1,100}")
_EXTRAS = {"pyarrow": "pytest-mlebench[parquet]"}
"""The package that installs a module, if it has another name."""


@dataclass(frozen=True, kw_only=True)
class _Golden:
    """The types of values in ``golden.json``."""

    seed: int
    public: Mapping[str, Any]
    private: Mapping[str, Any]
    scores: Mapping[str, float]
    no_score: tuple[str, ...]
    invalid: tuple[str, ...]
    lines: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Competition:
    """A competition, as described by its ``competition.yaml``. Its code is imported only on use.

    Paths of ``answers``, ``perfect_submission`` and ``sample_submission`` are relative to the prepared data.
    ``checksums`` maps ``zip``, ``public`` and ``private`` to md5 digests, the latter two by file.
    ``sample_submission_score`` is None if the sample submission is invalid, NaN if it is valid but has no score.
    ``split`` is one of the bundled splits or any other name.
    ``source`` is ``kaggle``, or ``bundled`` if ``prepare.py`` needs no raw data.
    ``requires`` lists optional modules that ``prepare.py`` and ``synthetic.py`` import.
    ``known_leak`` says how the public files give answers away (empty: they do not). ``groups`` names kinds of groups
    that the split must not divide. Each kind has the ``column`` of the group in the prepared files ``train`` and
    ``test``; the first capture group of an optional regular expression ``pattern`` extracts the group from it.
    ``exceptions`` gives, by the name of a gate check, the reason why it may fail.

    In a version that corrects the competition (``is_corrected``), ``changes`` lists the corrections, and the version's
    own ``known_issues`` the remaining defects. ``thresholds`` is whether the leaderboard's medals still mean the same,
    and ``differences`` says why not (see ``schema.thresholds_of``). ``contaminated`` says why the answers are publicly
    known, which no version can change (empty: they are not).

    ``is_twin`` is whether the leaderboard belongs to generated data (see ``as_twin``).

    >>> from pytest_mlebench import default_catalogue
    >>> competition = default_catalogue()["smoke-diabetes"]
    >>> competition.metric, competition.split, competition.leaderboard.gold
    ('root_mean_squared_error', 'smoke', 55.78176)
    """

    folder: Path
    id: str
    title: str
    split: str
    category: str
    metric: str
    direction: str
    leaderboard: Leaderboard
    url: str = ""
    data_types: tuple[str, ...] = ()
    kernel_only: bool = False
    answers: str = "private/test.csv"
    perfect_submission: str = "private/test.csv"
    sample_submission: str = "public/sample_submission.csv"
    sample_submission_score: float | None = None
    answers_rows: int | None = None
    raw_scale: str = ""
    checksums: Mapping[str, Any] = field(default_factory=dict)
    known_issues: tuple[str, ...] = ()
    known_leak: str = ""
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    exceptions: Mapping[str, str] = field(default_factory=dict)
    source: str = "kaggle"
    requires: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    thresholds: str = "apply"
    differences: Mapping[str, str] = field(default_factory=dict)
    contaminated: str = ""
    version: str = FIRST
    is_twin: bool = False

    @classmethod
    def load(cls, path: AnyPath, *, version: str = FIRST) -> Competition:
        """Read a competition's folder, or its ``competition.yaml``. A later version's own file overrides its keys.

        Raises CompetitionError that names the file, the keys and what was expected.
        """
        path = expanded(path)
        file = path if path.name == FILE_NAME else path / FILE_NAME
        values = _values(file)
        fields = schema.check(values, file)
        override = file.parent / version / FILE_NAME
        if version != FIRST and override.is_file():
            fields = schema.check_override(values, schema.read_yaml(override), override)
        fields.setdefault("perfect_submission", fields.get("answers", cls.answers))
        competition = cls(folder=file.parent, version=version, **fields)
        if not competition.description.is_file():
            raise CompetitionError(f"{competition.description} is missing: agents read the task there")
        return competition

    @classmethod
    def bare(cls, folder: Path, *, id: str, version: str, sample_submission: str = "") -> Competition:
        """A competition known only by its files, without a metric or medal thresholds."""
        unknown = Leaderboard(
            teams=0, lower_is_better=False, gold=math.nan, silver=math.nan, bronze=math.nan, median=math.nan
        )
        return cls(
            folder=folder,
            id=id,
            title="",
            split="",
            category="",
            metric="",
            direction="higher",
            leaderboard=unknown,
            sample_submission=sample_submission,
            version=version,
        )

    @staticmethod
    def is_ours(path: Path) -> bool:
        """Whether a ``competition.yaml`` is for pytest-mlebench: other tools use this file name too.

        Ours has a top-level key ``leaderboard``, or ``grade.py`` and ``prepare.py`` in its folder, so that a damaged
        file is noticed. The file is read, but not parsed. A later version's file, in a subfolder of the competition,
        is not a competition by itself.
        """
        file = path if path.name == FILE_NAME else path / FILE_NAME
        is_override = file.parent.name in VERSIONS and (file.parent.parent / FILE_NAME).is_file()
        if is_override:
            return False
        has_code = all((file.parent / name).is_file() for name in ("grade.py", "prepare.py"))
        return has_code or schema.has_leaderboard(file)

    @property
    def is_corrected(self) -> bool:
        """Whether this version of the benchmark has its own folder, and thus its own data, for the competition."""
        return self.version != FIRST and (self.folder / self.version).is_dir()

    @property
    def versions(self) -> tuple[str, ...]:
        """The first version, and those that correct the competition."""
        return (FIRST, *(version for version in VERSIONS[1:] if (self.folder / version).is_dir()))

    def of_version(self, version: str) -> Competition:
        """The competition in another version of the benchmark."""
        return self if version == self.version else type(self).load(self.folder, version=version)

    def as_twin(self, leaderboard: Leaderboard) -> Competition:
        """The competition with generated data. This leaderboard replaces the real one, and all facts about the real
        data are removed."""
        return replace(
            self,
            leaderboard=leaderboard,
            is_twin=True,
            checksums={},
            sample_submission_score=None,
            thresholds="apply",
            differences={},
            contaminated="",
        )

    @property
    def split_label(self) -> str:
        """The name of the split in results (see ``split_label``)."""
        return split_label(self.split, self.version, is_twin=self.is_twin)

    @property
    def lower_is_better(self) -> bool:
        return self.direction == "lower"

    @property
    def has_twin(self) -> bool:
        """Whether the folder has a ``twin.py``."""
        return self.file("twin.py").is_file()

    @property
    def placeholder_scores(self) -> str:
        """Advice if the leaderboard still has the placeholder scores of ``mlebench new-competition``; else empty."""
        if self.leaderboard.source != "placeholder":
            return ""
        return (
            f"{self.file('competition.yaml')}: the leaderboard's scores are placeholders; write your own and remove "
            "`source: placeholder` (`Leaderboard.from_scores` computes them)"
        )

    def file(self, name: str) -> Path:
        """Path of one of the folder's files; a later version's own file takes precedence over the common one."""
        specific = self.folder / self.version / name
        return specific if specific.exists() else self.folder / name

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that define the competition for an agent: ``competition.yaml``, description and Python files."""
        folders = (self.folder, self.folder / self.version) if self.is_corrected else (self.folder,)
        named = [folder / name for name in (FILE_NAME, "description.md", OBFUSCATED) for folder in folders]
        code = [
            path
            for folder in folders
            for path in sorted(folder.glob("*.py"))
            if path.name not in ("synthetic.py", "twin.py")
        ]
        return tuple(path for path in (*named, *code) if path.is_file())

    @property
    def description(self) -> Path:
        return self.file("description.md")

    @property
    def obfuscated_description(self) -> Path:
        """The path of the description that hides the competition's name.

        A version with its own description also needs its own obfuscated one: the first version's would be wrong.
        Raises CompetitionError if there is none, or ``read_text`` cannot read it.
        """
        path = self.description.with_name(OBFUSCATED)
        if not path.is_file():
            raise CompetitionError(f"{self.id} has no obfuscated description: write {path}")
        read_text(path)
        return path

    @cached_property
    def kernels(self) -> tuple[str, ...]:
        """The public notebooks with the most votes, as ``AUTHOR/SLUG``; empty if there is no ``kernels.json``.

        Raises CompetitionError if the file contains anything else.
        """
        path = self.folder / KERNELS
        if not path.is_file():
            return ()
        try:
            found = loads(read_text(path))
        except ValueError as error:
            raise CompetitionError(f"{path}: cannot be read: {error}") from error
        if not isinstance(found, list) or not all(isinstance(name, str) and _KERNEL.fullmatch(name) for name in found):
            raise CompetitionError(f"{path}: must be a list of notebooks, each as AUTHOR/SLUG")
        return tuple(dict.fromkeys(found))

    @cached_property
    def golden(self) -> dict[str, Any]:
        """Expected results for synthetic data, from ``golden.json``; raises CompetitionError if missing or invalid."""
        path = self.file("golden.json")
        advice = f"create it with `{golden_command(self, *(['--force'] if path.exists() else []))}`"
        try:
            golden: dict[str, Any] = loads(read_text(path))
            if (seed := parse(_Golden, golden).seed) < 0:
                raise ValueError(f"seed must be at least 0, not {seed}")
        except CompetitionError as error:
            raise CompetitionError(f"{error}: {advice}") from error
        except ValueError as error:
            raise CompetitionError(f"{path} is not valid: {reason(error)}; {advice}") from error
        return golden

    def module(self, name: str) -> ModuleType:
        """Import ``prepare``, ``grade``, ``synthetic`` or another module of the folder, which is a package.

        An imported module is reused, unless a file of the folder has changed. Raises CompetitionError that names the
        file and line of the code that failed.
        """
        path = self.file(f"{name}.py")
        if not path.is_file():
            raise CompetitionError(f"{path} is missing")
        if name in ("prepare", "synthetic", "twin"):
            self.require_modules()
        try:
            return import_file(self.folder, path)
        except (Exception, SystemExit) as error:
            raise CompetitionError(f"{path} cannot be imported: {self.describe_error(error)}") from error

    def describe_error(self, error: BaseException) -> str:
        """An exception in one line, with the file, line and code if it was raised in the folder."""
        text, place = f"{type(error).__name__}: {error}", self.place_of(error)
        if isinstance(error, SyntaxError) and place:
            text = f"{type(error).__name__}: {error.msg}"
        return f"{text} ({place})" if place else text

    def place_of(self, error: BaseException) -> str:
        """Where in the folder an exception was raised, as file, line and code; empty if it was raised elsewhere."""
        folder = self.folder.resolve()
        if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(folder):
            where = traceback.FrameSummary(error.filename, error.lineno, "", line=error.text)
        else:
            frames = traceback.extract_tb(error.__traceback__)
            inside = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
            if not inside:
                return ""
            where = inside[-1]
        name = Path(where.filename).relative_to(folder)
        return f"{name}, line {where.lineno}: {(where.line or '').strip()}"

    def require_modules(self) -> None:
        """Raise CompetitionError, with an install command, if this environment lacks modules for preparing the data."""
        if missing := [name for name in self.requires if find_spec(name) is None]:
            packages = " ".join(f"'{_EXTRAS.get(name, name)}'" for name in missing)
            raise CompetitionError(
                f"{self.id}: its data cannot be prepared without {' and '.join(missing)}; run: pip install {packages}"
            )

    def function(self, module: str, name: str) -> Callable[..., Any]:
        """A function of one of the folder's modules; raises CompetitionError if there is none."""
        function = getattr(self.module(module), name, None)
        if not callable(function):
            raise CompetitionError(f"{self.file(f'{module}.py')} has no function {name!r}")
        return cast("Callable[..., Any]", function)


def item_name(name: str, of: str, version: str) -> str:
    """The name of a competition's pytest item. It ends with ``of`` and the version unless it is the first.

    >>> item_name("dummy", "seed=0", "v2"), item_name("dummy", "seed=0", "v1"), item_name("scores", "", "v1")
    ('dummy[seed=0,v2]', 'dummy[seed=0]', 'scores')
    """
    suffix = ",".join(filter(None, [of, "" if version == FIRST else version]))
    return f"{name}[{suffix}]" if suffix else name


def split_label(split: str, version: str, *, is_twin: bool = False) -> str:
    """The name of a split in results: ``low``, ``low v2``, ``low twin``, ``low v2 twin``. Versions, twins and real data
    get different labels, so that their results never mix."""
    label = split if version == FIRST else f"{split} {version}"
    return f"{label}{_TWIN}" if is_twin else label


def split_and_version(label: str) -> tuple[str, str]:
    """The split and the version in a ``split_label``, with or without twins.

    >>> split_and_version("low v2 twin"), split_and_version("low")
    (('low', 'v2'), ('low', 'v1'))
    """
    label = label.removesuffix(_TWIN)
    split, _, version = label.rpartition(" ")
    return (split, version) if split and version in VERSIONS else (label, FIRST)


def is_twin_label(label: str) -> bool:
    return label.endswith(_TWIN)


def command(name: str, competition: Competition, *options: str) -> str:
    """The command line of ``mlebench NAME`` for a competition in any folder; quote ``options`` for the shell."""
    folder = competition.folder.parent
    where = [] if folder.resolve() == bundled("competitions").resolve() else ["--competitions-dir", str(folder)]
    words = ["mlebench", name, "-c", competition.id, *_version(competition), *options, *map(shlex.quote, where)]
    return " ".join(words)


def golden_command(competition: Competition, *options: str) -> str:
    """The command line that writes the competition's ``golden.json``."""
    words = ["mlebench", "golden", *options, *_version(competition), shlex.quote(str(competition.folder))]
    return " ".join(words)


def _version(competition: Competition) -> list[str]:
    return ["--bench-version", competition.version.removeprefix("v")] if competition.is_corrected else []


def _values(file: Path) -> Any:
    """The content of a ``competition.yaml``, which is read once for all versions until it changes."""
    try:
        status = file.stat()
    except OSError:
        return schema.read_yaml(file)  # raises the error
    return _values_as_of(file, status.st_mtime_ns, status.st_size, status.st_ino)


@lru_cache(maxsize=512)
def _values_as_of(file: Path, *_: int) -> Any:
    return schema.read_yaml(file)
