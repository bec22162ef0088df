from pathlib import Path

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import read_csv, split_groups, write_csv

TEST_COLUMNS = [
    "site_id",
    "patient_id",
    "image_id",
    "laterality",
    "view",
    "age",
    "implant",
    "machine_id",
    "prediction_id",
]


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split_groups(read_csv(raw / "train.csv"), "patient_id", test_size=0.1, random_state=42)
    test = test.assign(prediction_id=test["patient_id"].astype(str) + "_" + test["laterality"])
    answers = test.groupby("prediction_id", as_index=False)["cancer"].first()
    write_csv(train, public / "train.csv")
    write_csv(test[TEST_COLUMNS], public / "test.csv")
    write_csv(answers, private / "answers.csv")
    write_csv(answers.assign(cancer=train["cancer"].mean()), public / "sample_submission.csv")
    for rows, side in ((train, "train_images"), (test, "test_images")):
        names = rows["patient_id"].astype(str) + "/" + rows["image_id"].astype(str) + ".dcm"
        link_files(names, raw / "train_images", public / side)
