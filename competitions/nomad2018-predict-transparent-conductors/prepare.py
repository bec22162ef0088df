from pathlib import Path

import numpy as np

from pytest_mlebench.authoring.archives import unpack_zip
from pytest_mlebench.authoring.tables import read_zipped_csv, split, write_csv

from .columns import TARGETS


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_zipped_csv(raw / "train.csv.zip"), test_size=0.1)
    geometries = {}
    for side, materials in (("train", train), ("test", test)):
        old_ids, materials["id"] = materials["id"], np.arange(1, len(materials) + 1)
        for old, new in zip(old_ids, materials["id"], strict=True):
            geometries[f"train/{old}/geometry.xyz"] = f"{side}/{new}/geometry.xyz"
    unpack_zip(raw / "train.zip", public, geometries)
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(test.drop(columns=TARGETS), public / "test.csv")
    write_csv(
        test[["id"]].assign(formation_energy_ev_natom=0.1779, bandgap_energy_ev=1.8892),
        public / "sample_submission.csv",
    )
