from pathlib import Path

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import read_csv, split, take_groups, write_csv

from .columns import TARGET

OF_TRAINING_MOLECULES = [
    "structures",
    "dipole_moments",
    "magnetic_shielding_tensors",
    "mulliken_charges",
    "potential_energy",
    "scalar_coupling_contributions",
]


def prepare(raw: Path, public: Path, private: Path) -> None:
    pairs = read_csv(raw / "train.csv")
    train, test = split(sorted(pairs["molecule_name"].unique()), test_size=0.1)
    answers = take_groups(pairs, "molecule_name", test)
    write_csv(answers, private / "answers.csv")
    write_csv(answers.drop(columns=TARGET), public / "test.csv")
    write_csv(answers[["id"]].assign(**{TARGET: 0}), public / "sample_submission.csv")
    write_csv(take_groups(pairs, "molecule_name", train), public / "train.csv")
    for name in OF_TRAINING_MOLECULES:
        table = read_csv(raw / f"{name}.csv")
        write_csv(table[table["molecule_name"].isin(train)], public / f"{name}.csv")
    link_files((f"{molecule}.xyz" for molecule in train), raw / "structures", public / "structures")
