"""``Bench.bundle`` and ``Bench.verify``: results that others can verify."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pytest_mlebench.bench import Bench
from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.bundles import verify as verification
from pytest_mlebench.extras.bundles.bundle import (
    KINDS,
    MAX_BYTES,
    TABLES,
    Bundle,
    check_is_bundle,
    read_bundle,
    write_bundle,
)
from pytest_mlebench.extras.bundles.card import Card
from pytest_mlebench.io.files import AnyPath, expanded
from pytest_mlebench.io.values import json_text, loads
from pytest_mlebench.records.group import RunGroup, write_group
from pytest_mlebench.reports.formats import to_json
from pytest_mlebench.results.overview import overview


def bundle(
    bench: Bench,
    group: AnyPath | RunGroup,
    path: AnyPath,
    *,
    leave_out: Collection[str] = (),
    sign: AnyPath | None = None,
) -> Bundle:
    """Pack a run group into the file ``path``, so that others can verify it.

    ``leave_out`` names kinds of files (see ``bundle.KINDS``), and ``sign`` is an SSH key. Raises UsageError, for
    example if ``verify`` would reject the bundle.
    """
    if unknown := sorted(set(leave_out) - KINDS.keys()):
        raise UsageError(f"leave_out: {unknown[0]!r} is not one of {', '.join(KINDS)}")
    run_group = group if isinstance(group, RunGroup) else bench.group(group)
    graders = cache(bench.regrader)
    return write_bundle(
        run_group.folder,
        expanded(path),
        leave_out=leave_out,
        extra={TABLES: json_text(group_files(run_group)[TABLES]).encode()},
        missing_runs=len(run_group.planned - run_group.runs.keys()),
        key=None if sign is None else expanded(sign),
        check=lambda made: verification.objections(made, graders, group_files),
    )


def verify(
    bench: Bench,
    path: AnyPath,
    *,
    digest: str | None = None,
    allowed_signers: AnyPath | None = None,
    max_bytes: int = MAX_BYTES,
) -> Card:
    """Check a bundle with the data and the graders of this machine.

    ``digest`` is the one that was published with it, ``allowed_signers`` a file of the keys that may have signed it,
    and ``max_bytes`` the maximum unpacked size. Raises UsageError, or DataError if the file is not a bundle or was
    changed.
    """
    file = expanded(path)
    check_is_bundle(file)
    if digest is not None and not re.fullmatch("(sha256:)?[0-9a-fA-F]{64}", digest):
        raise UsageError(f"digest: {digest!r} is not 64 hexadecimal digits, as `mlebench bundle` prints them")
    with tempfile.TemporaryDirectory(prefix="mlebench-verify-") as scratch:
        return verification.verify(
            read_bundle(file, Path(scratch), max_bytes=max_bytes),
            cache(bench.regrader),
            files=group_files,
            digest=digest and digest.removeprefix("sha256:").lower(),
            allowed_signers=None if allowed_signers is None else expanded(allowed_signers),
        )


def group_files(group: RunGroup) -> Mapping[str, Any]:
    """Compute a group's reports and tables from its records, by file name."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / group.name
        folder.mkdir()
        write_group(folder, group.manifest.created_at, group.records)
        files: dict[str, Any] = {path.name: loads(path.read_bytes()) for path in folder.iterdir()}
    view = to_json(overview([group]))
    return {**files, TABLES: {name: view[name] for name in ("summaries", "costs", "timelines")}}
