import zipfile

from pytest_mlebench.data.archives import ZipWriter


def test_a_member_of_a_zip_archive_can_be_written_piece_by_piece(tmp_path):
    with ZipWriter(tmp_path / "whole.zip") as archive:
        archive.write("a.txt", b"one two")
    with ZipWriter(tmp_path / "pieces.zip") as archive, archive.open("a.txt") as member:
        member.write(b"one ")
        member.write(b"two")
    for name in ("whole.zip", "pieces.zip"):
        with zipfile.ZipFile(tmp_path / name) as archive:
            assert archive.read("a.txt") == b"one two"
            assert archive.getinfo("a.txt").compress_type == zipfile.ZIP_DEFLATED
            assert archive.getinfo("a.txt").date_time == (1980, 1, 1, 0, 0, 0)
