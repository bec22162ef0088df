"""Prepared data at a URL, here a folder: the index, pushing, pulling, and rejected data."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import shlex
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.cli.main import parser_and_commands
from pytest_mlebench.data import preparing as address
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import DataError, UsageError
from pytest_mlebench.extras.remote_data.index import (
    IndexDamaged,
    IndexHead,
    Layout,
    ListedFile,
    parse_head,
    read_list,
    write_list,
)
from pytest_mlebench.extras.remote_data.source import RemoteSource as Storage
from pytest_mlebench.io.progress import silent

TOY = Path(__file__).parents[1] / "toys/competitions/toy-parity"
SIZES = {"public/images/a b#?%.bin": 100_000, "public/images/deep/é.bin": 0, "private/notes.bin": 50_000}


def prepared(root: Path, competition: Competition, seed: int = 0) -> DataStore:
    """A store with the toy's data and some additional files."""
    store = DataStore(root)
    folder = store.prepare(competition).prepared
    rng = random.Random(seed)
    for name, size in SIZES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(rng.randbytes(size))
    store.dataset(competition).listing.unlink()
    return store


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def toy() -> Competition:
    return Competition.load(TOY)


@pytest.fixture
def store(tmp_path: Path, toy: Competition) -> DataStore:
    return prepared(tmp_path / "here", toy)


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return tmp_path / "remote"


@pytest.fixture
def push(store: DataStore, toy: Competition, remote: Path) -> Callable[..., int]:
    return lambda **options: store.push(toy, Storage(f"file://{remote}"), **options)


@pytest.fixture
def pull(tmp_path: Path, toy: Competition, remote: Path) -> Callable[[], DataStore]:
    def pull() -> DataStore:
        there = DataStore(tmp_path / "there", source=f"file://{remote}")
        there.prepare(toy)
        return there

    return pull


def test_pulled_data_equals_pushed_data(
    push: Callable[..., int], pull: Callable[[], DataStore], store: DataStore, toy: Competition, remote: Path
) -> None:
    assert push() == 8
    here, there = store.dataset(toy), pull().dataset(toy)
    assert contents(there.prepared) == contents(here.prepared) == contents(remote / "toy-parity/prepared")
    assert all(path.stat().st_mode & 0o777 == 0o444 for path in there.prepared.rglob("*") if path.is_file())
    assert there.source == f"file://{remote}" and here.source == ""
    assert there.description == here.description == "bundled"
    assert {path.name for path in there.folder.iterdir()} == {".lock", "prepared", "state.json", "files.jsonl.gz"}
    assert {path.name for path in (remote / "toy-parity").iterdir()} == {
        *("prepared", "prepared.json", "prepared.public.jsonl.gz", "prepared.private.jsonl.gz")
    }
    changed = there.public / "train.csv"
    changed.chmod(0o644)
    changed.write_text("id,odd\n")
    assert DataStore(there.folder.parent).verify(toy)[0].startswith("public/train.csv has changed")


@pytest.mark.full
def test_data_prepared_after_a_pull_has_no_source(
    push: Callable[..., int], pull: Callable[[], DataStore], toy: Competition
) -> None:
    push()
    there = pull()
    assert DataStore(there.root).prepare(toy, force=True).source == ""


def test_a_second_push_writes_only_missing_files(push: Callable[..., int], remote: Path) -> None:
    push()
    before = {path: path.stat().st_mtime_ns for path in remote.rglob("*") if path.is_file()}
    assert push() == 0
    assert {path: path.stat().st_mtime_ns for path in remote.rglob("*") if path.is_file()} == before
    (remote / "toy-parity/prepared/private/notes.bin").write_bytes(b"cut")
    (remote / "toy-parity/prepared/public/train.csv").unlink()
    assert push() == 2


@pytest.mark.full
def test_other_data_is_overwritten_only_on_request(
    push: Callable[..., int],
    pull: Callable[[], DataStore],
    tmp_path: Path,
    toy: Competition,
    remote: Path,
) -> None:
    push()
    before = contents(remote)
    other = prepared(tmp_path / "other", toy, seed=1)
    with pytest.raises(DataError, match=r"has other data for it; nothing is overwritten.* --replace"):
        other.push(toy, Storage(f"file://{remote}"))
    assert contents(remote) == before
    assert other.push(toy, Storage(f"file://{remote}"), replace=True) == 8
    assert contents(pull().dataset(toy).prepared) == contents(other.dataset(toy).prepared)


@pytest.mark.full
def test_an_interrupted_push_has_no_index_and_resumes_only_with_the_same_data(
    store: DataStore,
    push: Callable[..., int],
    pull: Callable[[], DataStore],
    tmp_path: Path,
    toy: Competition,
    remote: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[str] = []
    upload = Storage.upload

    def breaks(self: Storage, file: Path, name: str, *others: object) -> None:
        if len(written) == 3:
            raise DataError("no more")
        written.append(name)
        upload(self, file, name)

    with monkeypatch.context() as patched, pytest.raises(DataError, match="no more"):
        patched.setattr(Storage, "upload", breaks)
        store.push(toy, Storage(f"file://{remote}", files_at_once=1))
    with pytest.raises(DataError, match=r"has no data for it \(toy-parity/prepared.json is missing\); push it"):
        DataStore(tmp_path / "early", source=f"file://{remote}").find(replace(toy, source="kaggle"))
    with pytest.raises(DataError, match="has a part of other data for it, from an interrupted or running push"):
        prepared(tmp_path / "other", toy, seed=1).push(toy, Storage(f"file://{remote}"))
    assert push() == 5
    pull()


def test_files_without_an_index_are_not_reused(push: Callable[..., int], remote: Path) -> None:
    stray = remote / "toy-parity/prepared/public/train.csv"
    stray.parent.mkdir(parents=True)
    stray.write_text("x")
    with pytest.raises(DataError, match="has files for it that no index lists; nothing is overwritten"):
        push()
    assert push(replace=True) == 8


def test_data_that_has_changed_since_it_was_prepared_is_not_pushed(toy: Competition, tmp_path: Path) -> None:
    store = DataStore(tmp_path / "here")
    (store.prepare(toy).public / "train.csv").unlink()
    with pytest.raises(DataError, match=r"public/train.csv is missing; data that has changed"):
        store.push(toy, Storage(f"file://{tmp_path}/remote"))
    assert not (tmp_path / "remote").exists()


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("prepared/private/notes.bin", lambda path: path.write_bytes(bytes(50_000)), "its SHA-256 differs"),
        ("prepared/private/notes.bin", lambda path: path.write_bytes(bytes(9)), "has 9 bytes instead of 50000"),
        ("prepared/private/notes.bin", lambda path: path.unlink(), "it is missing, and the index lists it"),
        ("prepared.private.jsonl.gz", lambda path: path.write_bytes(b"no gzip"), "it cannot be unpacked"),
        ("prepared.private.jsonl.gz", lambda path: path.unlink(), "does not exist"),
        ("prepared.json", lambda path: path.write_bytes(b'{"format": 1}'), "not an index of prepared data"),
        ("prepared.json", lambda path: path.write_bytes(b"[" * 60_000), "not an index of prepared data"),
        ("prepared.json", lambda path: path.write_bytes(b" " * 70_000), "is larger than 65,536 bytes"),
        ("prepared.json", lambda path: path.write_bytes(b'{"format": 2}'), "its format is unknown"),
    ],
)
def test_damaged_files_are_named_and_nothing_is_published(
    push: Callable[..., int],
    pull: Callable[[], DataStore],
    toy: Competition,
    tmp_path: Path,
    remote: Path,
    name: str,
    change: Callable[[Path], None],
    said: str,
) -> None:
    push()
    change(remote / "toy-parity" / name)
    with pytest.raises(DataError) as caught:
        pull()
    assert said in str(caught.value) and f"file://{remote}/toy-parity/{name}" in str(caught.value)
    assert "\n" not in str(caught.value)
    there = DataStore(tmp_path / "there").dataset(toy)
    assert not there.prepared.exists() and not there.is_prepared
    if "larger" not in said:
        options = f"--replace --competitions-dir {TOY.parent}"
        assert str(caught.value).endswith(f"mlebench push -c toy-parity file://{remote} {options}")
        push(replace=True)
        pull()


@pytest.mark.parametrize(
    "name",
    ["../../outside", "/etc/outside", "a/../../outside", "a//b", "", ".", "..", "a/", "\0", "\udc80", "a/.", "l" * 300],
)
def test_names_in_an_index_cannot_leave_the_folder(name: str) -> None:
    packed, part = write_list([ListedFile(name, 1, "0" * 64)])
    with pytest.raises(IndexDamaged, match="is not the name of a file in the folder"):
        read_list(packed, part)


@pytest.mark.parametrize(
    "line",
    ['["a", -1, "S"]', '["a", 1e3, "S"]', '["a", true, "S"]', '["a", 1]', "{}", '["a", 1, "S0"]', '["a", 1, "s"]', "["],
)
def test_sizes_and_digests_in_an_index_are_validated(line: str) -> None:
    line = line.replace("S", "0" * 64)
    digest = hashlib.sha256(f"{line}\n".encode()).hexdigest()
    _, part = write_list([ListedFile("a", 1, "0" * 64)])
    with pytest.raises(IndexDamaged):
        read_list(gzip.compress(f"{line}\n".encode()), replace(part, sha256=digest))


def test_an_index_cannot_be_larger_than_declared(toy: Competition) -> None:
    entries = [ListedFile(f"f{k}", 10, "0" * 64) for k in range(5)]
    packed, part = write_list(entries)
    assert read_list(packed, part) == entries
    for wrong in (replace(part, files=4), replace(part, bytes=49), replace(part, sha256="1" * 64)):
        with pytest.raises(IndexDamaged):
            read_list(packed, wrong)
    for names, is_possible in (
        (["a", "a b", "ab", "b/a"], True),
        (["a", "a b", "a b/c"], False),
        (["a", "a-b", "a/b"], False),
    ):
        listed = [ListedFile(name, 1, "0" * 64) for name in names]
        with nullcontext() if is_possible else pytest.raises(IndexDamaged, match="in a folder with the name of a file"):
            assert read_list(*write_list(listed)) == listed
    for others in (entries[::-1], [entries[0], entries[0]]):
        with pytest.raises(IndexDamaged, match="not sorted, or one is a duplicate"):
            read_list(*write_list(others))
    with pytest.raises(IndexDamaged, match="too long"):  # a bomb
        read_list(gzip.compress(b" " * 50_000_000), part)
    head = IndexHead(id=toy.id, version="v1", parts={"public": part, "private": part})
    assert parse_head(head.to_json(), toy) == head
    with pytest.raises(IndexDamaged, match="it belongs to toy-parity v2"):
        parse_head(replace(head, version="v2").to_json(), toy)
    with pytest.raises(IndexDamaged, match="digest is wrong"):
        parse_head(head.to_json().replace(part.sha256.encode(), b"1" * 64, 1), toy)
    with pytest.raises(IndexDamaged, match="out of bounds"):
        parse_head(head.to_json().replace(b'"files": 5', b'"files": 99999999999'), toy)


def test_each_version_has_its_own_index(toy: Competition) -> None:
    corrected = next(competition for competition in default_catalogue(version="v2") if competition.is_corrected)
    assert Layout(toy).head == "toy-parity/prepared.json"
    assert Layout(corrected).head == f"{corrected.id}/prepared-v2.json"


@pytest.mark.full
def test_an_interrupted_pull_resumes_and_replaces_damaged_files(
    push: Callable[..., int], pull: Callable[[], DataStore], toy: Competition, remote: Path, tmp_path: Path
) -> None:
    push()
    lost = remote / "toy-parity/prepared/public/test.csv"
    content = lost.read_bytes()
    lost.unlink()
    work = DataStore(tmp_path / "there").dataset(toy).pulling
    for _ in range(20):  # files are pulled concurrently, and the missing one may be the first
        with pytest.raises(DataError, match="it is missing"):
            pull()
        if arrived := contents(work / "prepared").keys() - {"public/train.csv"}:
            break
    assert arrived, "nothing arrived"
    for name in arrived:
        (remote / "toy-parity/prepared" / name).unlink()  # it is not requested again
    spoilt = work / "prepared/public/train.csv"
    spoilt.parent.mkdir(parents=True, exist_ok=True)
    spoilt.unlink(missing_ok=True)
    spoilt.write_bytes(bytes((remote / "toy-parity/prepared/public/train.csv").stat().st_size))
    lost.write_bytes(content)
    pulled = pull().dataset(toy)
    assert (pulled.public / "train.csv").read_bytes() == (remote / "toy-parity/prepared/public/train.csv").read_bytes()


@pytest.mark.full
def test_a_partial_pull_of_other_data_is_discarded(
    push: Callable[..., int], pull: Callable[[], DataStore], toy: Competition, remote: Path, tmp_path: Path
) -> None:
    push()
    (remote / "toy-parity/prepared/public/test.csv").unlink()
    with pytest.raises(DataError, match="it is missing"):
        pull()
    other = prepared(tmp_path / "other", toy, seed=1)
    other.push(toy, Storage(f"file://{remote}"), replace=True)
    assert contents(pull().dataset(toy).prepared) == contents(other.dataset(toy).prepared)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("/data", "write a folder as file:///data"),
        ("file://data/x", "three slashes"),
        ("ftp://host/x", "is not a URL of s3://"),
        ("s3://", "has no bucket"),
        ("https:///x", "has no host"),
        ("https://host/x?signature=1", "without ? and #"),
        ("http://example.org/x", "use https://"),
        ("https://host:99999/x", "its host or port is invalid"),
        ("https://ada:signature@host:port/x", "its host or port is invalid"),
        ("https://ada:sig/signature@host/x", "its host or port is invalid"),
        ("ftp://ada:sig@signature@host/x", "is not a URL of s3://"),
        ("ada:signature@host/x", "is not a URL of s3://"),
    ],
)
def test_errors_for_invalid_urls_explain_the_format(url: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        Storage(url)
    assert said in str(caught.value) and "signature" not in str(caught.value)


def test_the_suggested_command_pushes_from_any_folder(toy: Competition, tmp_path: Path) -> None:
    own = Competition.load(shutil.copytree(TOY, tmp_path / "my races/toy-parity"))
    source = Storage(f"file://{tmp_path}/my data")
    with pytest.raises(DataError) as caught:
        source.head(own, silent)
    words = shlex.split(str(caught.value).partition("mlebench ")[2])
    options = parser_and_commands("push")[0].parse_args(words)
    assert options.url == source.url and options.competition == [own.id]
    assert str(own.folder.parent) in words


def test_files_whose_names_are_not_utf_8_are_not_pushed(
    push: Callable[..., int], store: DataStore, toy: Competition, remote: Path
) -> None:
    (store.dataset(toy).public / os.fsdecode(b"a\x80")).write_bytes(b"")
    with pytest.raises(DataError, match="its name is too long or not UTF-8: it cannot be pushed"):
        push()
    assert not remote.exists()


def test_passwords_are_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    own = "https://ada:s3@cr3t@example.org/data"
    monkeypatch.delenv(address.VARIABLE, raising=False)
    assert Storage(own).url == "https://***@example.org/data"
    with pytest.raises(DataError, match=r"set \$MLEBENCH_DATA_SOURCE to the full URL"):
        Storage("https://***@example.org/data")
    monkeypatch.setenv(address.VARIABLE, f"{own}/")
    assert Storage("https://***@example.org/data").url == "https://***@example.org/data"
    with pytest.raises(UsageError) as caught:
        Storage(own.replace("https", "ftp"))
    assert "cr3t" not in str(caught.value)


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gcsfs", None)
    with pytest.raises(UsageError, match=r"gs:// needs packages that are not installed: pip install .*\[gcs\]"):
        Storage("gs://bucket/data")


@pytest.mark.full
def test_too_little_disk_space_is_reported_before_anything_is_pulled(
    push: Callable[..., int], toy: Competition, remote: Path, tmp_path: Path
) -> None:
    push()
    head = remote / "toy-parity/prepared.json"
    values = json.loads(head.read_text())
    packed, part = write_list([ListedFile("big", 1 << 49, "0" * 64)])
    (remote / "toy-parity/prepared.public.jsonl.gz").write_bytes(packed)
    parts = {"public": part, "private": write_list([])[1]}
    head.write_bytes(IndexHead(id=toy.id, version=values["version"], parts=parts).to_json())
    with pytest.raises(DataError, match="not enough disk"):
        DataStore(tmp_path / "there", source=f"file://{remote}").prepare(toy)
    assert shutil.disk_usage(tmp_path).free and not list((tmp_path / "there").rglob("big"))
