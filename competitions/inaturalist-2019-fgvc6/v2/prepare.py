from pathlib import Path

from pytest_mlebench.authoring.rle import read_metadata

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    """The archives are named as what they are, and hold the photos that the JSON files name, under those names."""
    kept, renamed = first.write_tables(raw, public, private)
    kept |= {image["file_name"] for image in read_metadata(raw / "val2019.json")["images"]}
    archives = {
        public / "train_val2019.tar": {name: name for name in kept},
        public / "test2019.tar": {old: f"test2019/{new}" for old, new in renamed.items()},
    }
    first.write_archives(raw, archives)
