from pathlib import Path

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import hold_out, read_csv, write_csv

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    first.prepare(raw, public, private)
    test = read_csv(public / "test.csv")["molecule_name"].unique()
    train = read_csv(public / "train.csv")["molecule_name"].unique()
    _, structures = hold_out(read_csv(raw / "structures.csv"), "molecule_name", [*train, *test])
    (public / "structures.csv").unlink()
    write_csv(structures, public / "structures.csv")
    link_files((f"{molecule}.xyz" for molecule in test), raw / "structures", public / "structures")
