from pathlib import Path

from pytest_mlebench.authoring.files import link, link_files
from pytest_mlebench.authoring.tables import hold_out, read_csv, split, write_csv
from pytest_mlebench.authoring.tfrecord import read_examples


def prepare(raw: Path, public: Path, private: Path) -> None:
    train_records, test_records = split(sorted((raw / "train_tfrecords").glob("*.tfrec")), test_size=0.1)
    for part, records in (("train", train_records), ("test", test_records)):
        for k, path in enumerate(records):
            count = path.stem.partition("-")[2]
            link(path, public / f"{part}_tfrecords" / f"ld_{part}{k:02d}-{count}.tfrec")

    held_out = {example["image_name"][0].decode() for path in test_records for example in read_examples(path)}
    train, test = hold_out(read_csv(raw / "train.csv"), "image_id", held_out)
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(test.assign(label=4), public / "sample_submission.csv")
    link(raw / "label_num_to_disease_map.json", public / "label_num_to_disease_map.json")
    link_files(train["image_id"], raw / "train_images", public / "train_images")
    link_files(test["image_id"], raw / "train_images", public / "test_images")
