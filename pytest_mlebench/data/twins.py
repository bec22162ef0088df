"""Which twins a run uses: learnable data that a seed determines (see ``grading.twins``), of one of three sizes.

A twin's seed is drawn at random for each run group, and nothing but the data folder knows it: everything else names
twins by ``key``, a digest of the seed, so that whoever reads a path, a command line or a manifest cannot make the
twin again.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_mlebench.errors import DataError, reason
from pytest_mlebench.io import files

REAL = "real"
SIZES = ("small", "medium", "micro")
FOLDER = "twins"
_SEED_BITS = 64
_RANDOM = "random"
_KEY = re.compile(r"k[0-9a-f]{16}")


@dataclass(frozen=True)
class Twins:
    """The twins of one seed and size. ``seed`` is that of a single run with ``--twin-per-seed``, None for all runs.

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
        """What a run's record says of its twin. Raises DataError: the record may be somebody else's."""
        key, size, run_seed = (twin.get(name) for name in ("key", "size", "run_seed"))
        if not (isinstance(key, str) and _KEY.fullmatch(key)) or size not in SIZES:
            raise DataError("its record names no twin")
        return cls(key, size, None if run_seed is None else int(run_seed))

    def folder(self, data_dir: Path) -> Path:
        """Where the twins are, as a data folder of its own."""
        part = "" if self.run_seed is None else f"-{self.run_seed}"
        return data_dir / FOLDER / f"{self.key}-{self.size}{part}"

    def world_seed(self, data_dir: Path) -> int:
        """The seed that worlds are drawn from. Raises DataError where the data folder does not know the key."""
        seed = seed_of(self.key, data_dir)
        if self.run_seed is None:
            return seed
        return int.from_bytes(hashlib.sha256(f"run {self.run_seed} of twin {seed}".encode()).digest()[:8])


def parse_choice(text: str) -> str:
    """The value of ``--data``, in full: ``real`` or ``twin:SEED:SIZE``, where SEED may be ``random`` or a key.

    Raises ValueError.

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


def is_twins(choice: str) -> bool:
    return choice != REAL


def settled(choice: str, data_dir: Path, *, known: str | None = None) -> str:
    """The choice with a key in place of a seed, which the data folder keeps; ``random`` is that of ``known``, if its
    size is the same, else drawn. Raises DataError."""
    if not is_twins(choice):
        return choice
    _, seed, size = choice.split(":")
    if seed == _RANDOM and known is not None and is_twins(known) and known.split(":")[2] == size:
        return known
    if _KEY.fullmatch(seed):
        return choice
    number = secrets.randbits(_SEED_BITS) if seed == _RANDOM else int(seed)
    twins = Twins(Twins.key_of(number), size)
    file = _seed_file(twins.key, data_dir)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            files.write_text(file, f"{number}\n")
            file.chmod(0o600)
    except OSError as error:
        raise DataError(f"the seed of twins cannot be kept: {file}: {reason(error)}") from error
    return str(twins)


def twins_of(choice: str, run_seed: int | None = None) -> Twins:
    """The twins of a settled choice."""
    _, key, size = choice.split(":")
    return Twins(key, size, run_seed)


def seed_of(key: str, data_dir: Path) -> int:
    """The seed of a key. Raises DataError where the data folder does not know it."""
    file = _seed_file(key, data_dir)
    try:
        seed = int(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"the seed of the twins {key} is not in {file.parent}: they were made with another data folder; name it "
            "with --data-dir, or the seed with --data=twin:SEED"
        ) from error
    if Twins.key_of(seed) != key:
        raise DataError(f"{file} holds the seed of other twins")
    return seed


def _seed_file(key: str, data_dir: Path) -> Path:
    return data_dir / FOLDER / f"{key}.seed"
