import struct
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.errors import DataError

bson = default_catalogue()["cdiscount-image-classification-challenge"].module("bson")
elements, integer, read_documents, without = bson.elements, bson.integer, bson.read_documents, bson.without


def document(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack("<i", len(body) + 5) + body + b"\0"


INT32 = b"\x10_id\0" + struct.pack("<i", -7)
INT64 = b"\x12count\0" + struct.pack("<q", 1 << 40)
BINARY = b"\x05picture\0" + struct.pack("<i", 4) + b"\0" + b"\0\x10\0\0"
NESTED = b"\x04imgs\0" + document(b"\x030\0" + document(BINARY))
TEXT = b"\x02name\0" + struct.pack("<i", 3) + b"ab\0"
OTHERS = b"\x01d\0" + bytes(8) + b"\x07o\0" + bytes(12) + b"\x08b\0\x01" + b"\x09t\0" + bytes(8) + b"\x0an\0"


def test_elements_are_found_after_values_of_all_types() -> None:
    whole = document(TEXT, OTHERS, NESTED, BINARY, INT32, INT64)
    found = elements(whole)
    assert list(found) == [b"name", b"d", b"o", b"b", b"t", b"n", b"imgs", b"picture", b"_id", b"count"]
    assert integer(whole, found[b"_id"]) == -7
    assert integer(whole, found[b"count"]) == 1 << 40


@pytest.mark.parametrize("parts", [(INT32, NESTED, INT64), (INT64, INT32, NESTED), (INT32, INT64)])
def test_removing_an_element_leaves_the_rest_of_the_document(parts: tuple[bytes, ...]) -> None:
    whole = document(*parts)
    rest = document(*(part for part in parts if part is not INT64))
    assert without(whole, elements(whole)[b"count"]) == rest


def test_documents_are_returned_as_their_original_bytes(tmp_path: Path) -> None:
    documents = [document(INT32, NESTED), document(), document(TEXT)]
    (tmp_path / "x.bson").write_bytes(b"".join(documents))
    assert list(read_documents(tmp_path / "x.bson")) == documents


@pytest.mark.parametrize("damage", [b"\x10", b"\x03\0\0\0\0", b"\xff\xff\xff\xff\0", document(INT32)[:-1]])
def test_a_damaged_file_is_named(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "x.bson").write_bytes(document(INT32) + damage)
    with pytest.raises(DataError, match=r"x\.bson is damaged or cut off"):
        list(read_documents(tmp_path / "x.bson"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x\.bson is missing"):
        list(read_documents(tmp_path / "x.bson"))


def test_an_unknown_type_is_named() -> None:
    with pytest.raises(DataError, match="type 0x7f"):
        elements(document(b"\x7fkey\0"))
