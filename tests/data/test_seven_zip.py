from pathlib import Path

from pytest_mlebench.authoring.archives import unpack_7z, write_7z
from pytest_mlebench.data.dataset import digest


def test_bytes_text_and_files_can_be_read_from_a_7z_archive(tmp_path: Path) -> None:
    (tmp_path / "picture.jpg").write_bytes(b"\xff\xd8")
    members: dict[str, bytes | str | Path] = {
        "train/1.jpg": tmp_path / "picture.jpg",
        "train/2.jpg": b"two",
        "names.csv": "é\n",
    }
    write_7z(tmp_path / "new" / "data.7z", members)
    unpack_7z(tmp_path / "new" / "data.7z", tmp_path / "out")
    found = {
        path.relative_to(tmp_path / "out").as_posix(): path.read_bytes() for path in (tmp_path / "out").glob("**/*.*")
    }
    assert found == {"train/1.jpg": b"\xff\xd8", "train/2.jpg": b"two", "names.csv": "é\n".encode()}


def test_a_folder_is_stored_in_a_7z_archive_without_its_files(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "1.jpg").touch()
    write_7z(tmp_path / "data.7z", {"train": tmp_path / "full"})
    assert digest(tmp_path / "data.7z") == {}
    unpack_7z(tmp_path / "data.7z", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["train"]
