from collections import Counter
from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.rle import read_metadata, select, split_by_category, write_metadata
from pytest_mlebench.authoring.tables import write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    metadata = read_metadata(raw / "train_metadata.json")
    categories = [annotation["category_id"] for annotation in metadata["annotations"]]
    train, test = split_by_category(categories, test_size=0.2, few=0)

    # Renumber the training images of each species, so that gaps do not reveal which ones were held out.
    train_metadata = select(metadata, train)
    number: Counter[int] = Counter()
    renamed = {}
    for k, (annotation, image) in enumerate(zip(train_metadata["annotations"], train_metadata["images"], strict=True)):
        category = annotation["category_id"]
        number[category] += 1
        id = f"{category:05d}__{number[category]:03d}"
        name = f"{category // 100:03d}/{category % 100:02d}/{id}.jpg"
        renamed[image["file_name"]] = name
        train_metadata["annotations"][k] = {**annotation, "image_id": id}
        train_metadata["images"][k] = {**image, "image_id": id, "file_name": name}
    write_metadata(train_metadata, public / "train_metadata.json")
    link_files(renamed, raw / "train_images", public / "train_images")

    new_names = [f"{k // 1000:03d}/test-{k:06d}.jpg" for k in range(len(test))]
    images = [metadata["images"][position] for position in test]
    test_metadata = [
        {**image, "image_id": str(k), "file_name": name}
        for k, (image, name) in enumerate(zip(images, new_names, strict=True))
    ]
    write_metadata(test_metadata, public / "test_metadata.json")
    renamed = dict(zip((image["file_name"] for image in images), new_names, strict=True))
    link_files(renamed, raw / "train_images", public / "test_images")

    answers = pd.DataFrame({"Id": range(len(test)), "Predicted": [categories[position] for position in test]})
    write_csv(answers, private / "answers.csv")
    write_csv(answers.assign(Predicted=42), public / "sample_submission.csv")
