"""Bundles with malicious archives, made to harm the reader or to hide what an agent did, are rejected or limited with a
one-line message. Bundles open in the viewer."""

from __future__ import annotations

import json
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_mlebench import Bench, UsageError
from pytest_mlebench.cli.main import main
from pytest_mlebench.extras.bundles.bundle import TABLES, write_bundle
from pytest_mlebench.records.record import FILES
from pytest_mlebench.results import read_group
from tests.audit.test_deceiving_bundles import READS_ANSWERS, card_of
from tests.audit.test_verify import World, copy, run_json, tables, world
from tests.left import leave
from tests.plugin.conftest import TOYS
from tests.runs.test_files import linked, packed, patched, twice

__all__ = ["copy", "world"]
pytestmark = pytest.mark.full


def bomb() -> bytes:
    """Files of 60 MB each, with a declared total of 30 GB."""
    one = packed(("code/0000.py", b"0" * (60 << 20)))
    return _repeated(one, 500)


def _repeated(archive: bytes, times: int) -> bytes:
    """An archive that repeats the only member of another one, each time under a different name."""
    start = archive.index(b"PK\x01\x02")
    member, entry = archive[:start], archive[start : archive.index(b"PK\x05\x06")]
    members, entries = bytearray(), bytearray()
    for number in range(times):
        name = f"code/{number:04}.py".encode()
        placed = bytearray(entry.replace(b"code/0000.py", name))
        placed[42:46] = struct.pack("<L", len(members))
        entries += placed
        members += member.replace(b"code/0000.py", name)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, times, times, len(entries), len(members), 0)
    return bytes(members + entries + end)


def hidden_code() -> bytes:
    """Code with a wrong checksum, so that scanners cannot read it."""
    return patched(packed(("code/solution.py", READS_ANSWERS.encode())), b"PK\x01\x02", 16, b"\0\0\0\0")


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "a zip bomb": (bomb, "unpacks to 29.3 GiB; at most 24 GiB are kept"),
    "a member smaller than declared": (
        lambda: patched(packed(("code/a", b"a" * 1000)), b"PK\x01\x02", 24, struct.pack("<L", 0xFFFFFFF0)),
        "declares an impossible size",
    ),
    "a path to the parent": (lambda: packed(("code/../../../x.py", b"x")), "is not a path below"),
    "an absolute path": (lambda: packed(("/etc/x", b"x")), "is not a path below"),
    "a link": (lambda: packed(("code/x", b"/etc/passwd"), change=linked), "is not a regular file"),
    "a name twice": (twice, "is a duplicate"),
    "unreadable code": (hidden_code, "cannot be read: Bad CRC-32"),
    "no archive": (lambda: b"nothing of the kind", "is not a zip archive"),
}


@pytest.fixture
def bundle(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], Path]:
    """A bundle with such an archive in one run, in an empty working directory with a separate temporary folder."""
    (tmp_path / "work/tmp").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "work/tmp"))

    def made(archive: bytes) -> Path:
        (run_json(copy).parent / FILES).write_bytes(archive)
        write_bundle(copy, tmp_path / "b.tar.zst", extra={TABLES: tables(copy)})
        return tmp_path / "b.tar.zst"

    return made


@pytest.mark.parametrize("name", HOSTILE)
def test_malicious_archives_are_rejected_or_limited_in_one_line(
    name: str, world: World, bundle: Callable[[bytes], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    archive, why = HOSTILE[name]
    file = bundle(archive())
    data = [f"--data-dir={world.data}", f"--competitions-dir={TOYS / 'competitions'}"]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def said(*words: str) -> tuple[int, str]:
        status = main(list(words))
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        assert {path.name for path in Path.cwd().iterdir()} <= {"tmp", "into", "site"}
        assert not list((Path.cwd() / "tmp").iterdir()), "unpacked files are deleted"
        return status, " ".join(f"{captured.out} {captured.err}".split())

    status, text = said("verify", str(file), *data)
    assert status == 1 and "differs (records" in text and why in text
    status, text = said("unbundle", str(file), "--to=into")
    assert status == 1 and text.startswith("mlebench: ") and why in text and not list(Path("into").iterdir())
    status, text = said("board", str(file), "--out=site", *data)
    assert status == 0 and "not shown: b.tar.zst: differs (records" in text
    (own,) = json.loads(Path("site/board.json").read_text())["rejected"]
    assert any(why in reason for reason in own["reasons"])
    status, text = said("audit", str(file), *data)
    assert name == "a zip bomb" or "look (hidden): these files cannot be read" in text
    status, text = said("report", str(file))
    assert status == 0 and "toy/gold" in text
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown < 1 << 30, "memory is limited"


def test_code_in_an_honest_archive_is_audited_and_a_group_with_a_hostile_one_is_not_packed(
    world: World, copy: Path, tmp_path: Path
) -> None:
    run_dir = run_json(copy).parent
    leave(run_dir, {"code/solution.py": READS_ANSWERS})
    card = card_of(world, copy, tmp_path)
    assert card.violations == 1 and card.verdict == "violations"
    (run_dir / FILES).write_bytes(hidden_code())
    bench = Bench(data_dir=world.data, competitions_dir=TOYS / "competitions")
    with pytest.raises(UsageError, match=r"(?s)was not packed.*code/solution.py of .* cannot be read"):
        bench.bundle(copy, tmp_path / "c.tar.zst")


def test_the_viewer_shows_the_runs_of_a_bundle(world: World, tmp_path: Path) -> None:
    write_bundle(world.group, tmp_path / "toys.tar.zst", extra={TABLES: tables(world.group)})
    (tmp_path / "tmp").mkdir()
    before = (tmp_path / "toys.tar.zst").read_bytes()
    command = [sys.executable, "-m", "pytest_mlebench.cli", "view", str(tmp_path / "toys.tar.zst"), "--port=0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip().rstrip("/")
        run = next(record for record in read_group(world.group).records if record.llm)
        pages = {
            "": "toys",
            "/group/toys": run.competition_id,
            f"/run/toys/{run.run_id}": "toy/gold",
            f"/run/toys/{run.run_id}/trajectory": "Well.",
        }
        found = {page: urllib.request.urlopen(url + page, timeout=60).read().decode() for page in pages}
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in errors
    for page, expected in pages.items():
        assert expected in found[page], page
    assert not list((tmp_path / "tmp").iterdir()), "unpacked files are deleted"
    assert (tmp_path / "toys.tar.zst").read_bytes() == before
