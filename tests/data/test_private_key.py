"""Version 2 is split with a secret key of the data store, so others cannot repeat it; version 1 has fixed seeds."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_mlebench.authoring.corrections import keyed, private_generator
from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.data.preparing import KEY_FILE, key_of, resolve_choice, seed_of, twins_of
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import DataError

ID = "chaii-hindi-and-tamil-question-answering"


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    default_catalogue(version="v2")[ID].function("synthetic", "make")(folder, 1)
    return folder


@pytest.fixture
def second() -> Competition:
    return default_catalogue(version="v2")[ID]


def answers(store: Path, raw: Path, competition: Competition, *, force: bool = False) -> str:
    """The answers of version 2 of real data in a store."""
    return DataStore(store).prepare(competition, raw_dir=raw, force=force).answers.read_text()


def test_each_store_has_a_different_but_constant_split(raw: Path, second: Competition, tmp_path: Path) -> None:
    one = answers(tmp_path / "one", raw, second)
    assert answers(tmp_path / "one", raw, second, force=True) == one
    others = {answers(tmp_path / name, raw, second) for name in ("two", "three", "four")}
    assert len({one, *others}) > 1
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / "one" / KEY_FILE, tmp_path / "copy")
    assert answers(tmp_path / "copy", raw, second) == one


@pytest.mark.full
def test_version_1_has_the_references_split_and_needs_no_key(raw: Path, second: Competition, tmp_path: Path) -> None:
    first = second.of_version("v1")
    assert answers(tmp_path / "one", raw, first) == answers(tmp_path / "two", raw, first)
    assert not (tmp_path / "one" / KEY_FILE).exists()


def test_the_seed_of_twins_was_never_readable_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    twins = twins_of(resolve_choice("twin:7:micro", tmp_path))
    assert seed_of(twins.key, tmp_path) == 7
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "twins").iterdir()] == [0o600]


def test_concurrent_processes_create_one_key_readable_only_by_its_owner(second: Competition, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: key_of(second, tmp_path), range(16)))
    assert len(keys) == 1 and keys != {None}
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600


def test_a_key_is_stored_without_hard_links(
    second: Competition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert key_of(second, tmp_path) == key_of(second, tmp_path) is not None
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


def test_each_competition_has_its_own_key(tmp_path: Path) -> None:
    catalogue = default_catalogue(version="v2")
    ids = [ID, "kuzushiji-recognition", "billion-word-imputation"]
    assert len({key_of(catalogue[id], tmp_path) for id in ids}) == len(ids)
    assert key_of(catalogue["spaceship-titanic"], tmp_path) is None  # the same in both versions


def test_a_damaged_key_is_rejected_and_not_replaced(second: Competition, tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_bytes(b"half of a k\xff")
    with pytest.raises(DataError, match=r"private\.key is not a key of 64 hexadecimal digits\. Restore it from a copy"):
        key_of(second, tmp_path)
    assert (tmp_path / KEY_FILE).read_bytes() == b"half of a k\xff"


def test_a_copied_key_gives_the_same_split_in_later_package_versions(second: Competition, tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_text(bytes(range(32)).hex() + "\n")
    key = key_of(second, tmp_path)
    assert key is not None and key.hex() == "2e7b7894208d3b30342e59d76297842d5512f03166f4951fc7870b7686ca61d1"
    with keyed(key):
        assert private_generator("groups").randint(1000, size=3).tolist() == [696, 514, 799]


def test_a_generator_depends_on_key_and_purpose_and_has_seed_0_without_a_key() -> None:
    def drawn(purpose: str) -> tuple[int, ...]:
        return tuple(private_generator(purpose).randint(1 << 30, size=4).tolist())

    plain = drawn("a")
    assert plain == drawn("b")
    with keyed(b"k"):
        of_key = drawn("a")
        assert of_key == drawn("a") and of_key != drawn("b")
        with keyed(b"other"):
            assert drawn("a") not in (of_key, plain)
    assert drawn("a") == plain
