from pathlib import Path

import pytest

from pytest_mlebench.authoring.tables import read_csv, read_csv_high


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12.25", 12.25),
        ("-0.1", -0.1),
        ("+3", 3.0),
        # how pandas 3.0 reads numbers with many digits
        ("0.21060533511106927", 0.2106053351110692),
        ("94.52706955539223", 94.52706955539225),
        ("-94.52706955539223", -94.52706955539225),
        ("8.64827417511399510e-263", 8.648274175113994e-263),
        ("1.73267829924058869E49", 1.7326782992405885e49),
        ("123456789012345678901.5", 1.2345678901234568e20),
        ("3.3e-310", 3.3e-310),
        ("inf", float("inf")),
    ],
)
def test_numbers_are_read_as_by_the_former_default_parser(tmp_path: Path, text: str, value: float) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text(f"x,name\n{text},a\n,b\n")
    table = read_csv_high(path)
    assert table["x"].iloc[0] == value
    assert table["x"].isna().tolist() == [False, True]
    assert table["name"].tolist() == ["a", "b"]


def test_tables_without_long_numbers_are_read_as_usual(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("id,x,y\n1,0.1,\n2,2.5,7\n")
    assert read_csv_high(path).equals(read_csv(path))
