"""A competition: a folder with ``competition.yaml`` and the short files that prepare, grade and imitate its data."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import yaml

from pytest_mlebench.catalog.leaderboard import Leaderboard
from pytest_mlebench.errors import CompetitionError

FILE_NAME = "competition.yaml"
VERSIONS = ("v1", "v2")

# Each of 80 competitions holds a leaderboard of 100 figures: libyaml reads them ten times as fast.
_YamlLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_REQUIRED = ("id", "title", "split", "category", "metric", "direction", "leaderboard")
_KNOWN = {
    *_REQUIRED,
    "url",
    "data_types",
    "kernel_only",
    "answers",
    "perfect_submission",
    "sample_submission",
    "sample_submission_score",
    "answers_rows",
    "raw_scale",
    "checksums",
    "known_issues",
    "known_leak",
    "source",
}
SOURCES = ("kaggle", "bundled")


@dataclass(frozen=True, kw_only=True, eq=False)
class Competition:
    """One competition, as its ``competition.yaml`` describes it. Nothing of its code is imported before it is used.

    Paths of ``answers``, ``perfect_submission`` and ``sample_submission`` are relative to the prepared data.
    ``checksums`` maps ``zip``, ``public`` and ``private`` to md5 digests, the latter two by file.
    ``source`` is ``kaggle``, or ``bundled`` where ``prepare.py`` needs no raw data.
    ``known_leak`` says how the public files give answers away (empty: they do not).
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
    source: str = "kaggle"
    version: str = "v1"

    @classmethod
    def load(cls, path: Path, *, version: str = "v1") -> Competition:
        """Read a competition's folder, or its ``competition.yaml``.

        Raises CompetitionError that names the file and the key.
        """
        file = path if path.name == FILE_NAME else path / FILE_NAME
        override = file.parent / version / FILE_NAME
        try:
            text = (override if override.is_file() else file).read_text(encoding="utf-8")
            values = yaml.load(text, Loader=_YamlLoader)
        except OSError as error:
            raise CompetitionError(f"{file}: cannot be read ({error.strerror})") from error
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise CompetitionError(f"{file}: is not YAML: {error}") from error
        return cls._from_mapping(values, file, version)

    @classmethod
    def _from_mapping(cls, values: Any, file: Path, version: str) -> Competition:
        if not isinstance(values, dict):
            raise CompetitionError(f"{file}: must be a mapping of keys, for example `id: {file.parent.name}`")
        if missing := [key for key in _REQUIRED if key not in values]:
            raise CompetitionError(f"{file}: lacks {', '.join(missing)}")
        if unknown := sorted(map(str, values.keys() - _KNOWN)):
            raise CompetitionError(f"{file}: has unknown keys {', '.join(unknown)}")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", str(values["id"])):
            raise CompetitionError(f"{file}: id {values['id']!r} must be letters, digits, '-', '_' and '.'")
        if values["id"] != file.parent.name:
            raise CompetitionError(f"{file}: id {values['id']!r} must be the folder's name, {file.parent.name!r}")
        if values["direction"] not in ("lower", "higher"):
            raise CompetitionError(f"{file}: direction is {values['direction']!r}, must be 'lower' or 'higher'")
        if values.get("source", "kaggle") not in SOURCES:
            raise CompetitionError(f"{file}: source is {values['source']!r}, must be one of {', '.join(SOURCES)}")
        fields = dict(values)
        try:
            fields["leaderboard"] = Leaderboard.from_mapping(
                values["leaderboard"], lower_is_better=values["direction"] == "lower"
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CompetitionError(f"{file}: leaderboard is incomplete or wrong: {error!r}") from error
        for key in ("data_types", "known_issues"):
            fields[key] = tuple(values.get(key) or ())
        fields["checksums"] = values.get("checksums") or {}
        fields.setdefault("perfect_submission", fields.get("answers", cls.answers))
        return cls(folder=file.parent, version=version, **fields)

    @property
    def lower_is_better(self) -> bool:
        return self.direction == "lower"

    def file(self, name: str) -> Path:
        """Path of one of the folder's files; a later version's own file goes before the common one."""
        own = self.folder / self.version / name
        return own if own.exists() else self.folder / name

    @property
    def description(self) -> Path:
        return self.file("description.md")

    @cached_property
    def golden(self) -> dict[str, Any]:
        """What the synthetic data must give, from ``golden.json``; raises CompetitionError where there is none."""
        path = self.file("golden.json")
        try:
            return cast(dict[str, Any], json.loads(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise CompetitionError(f"{path} is missing: make it with `mlebench golden {self.folder}`") from error
        except ValueError as error:
            raise CompetitionError(f"{path}: is not JSON: {error}") from error

    def module(self, name: str) -> ModuleType:
        """Import ``prepare``, ``grade`` or ``synthetic`` from the folder (anew: never cached in sys.modules)."""
        path = self.file(f"{name}.py")
        spec = importlib.util.spec_from_file_location(f"mlebench_competition.{self.id}.{name}", path)
        if spec is None or spec.loader is None or not path.is_file():
            raise CompetitionError(f"{path} is missing")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise CompetitionError(f"{path} does not import: {type(error).__name__}: {error}") from error
        return module
