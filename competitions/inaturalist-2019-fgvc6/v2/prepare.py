from pathlib import Path

from pytest_mlebench.authoring.rle import read_metadata

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Name the archives correctly, and store in them all photos of the JSON files under the names there."""
    kept, renamed = first.write_tables(raw, public, private)
    kept |= {image["file_name"] for image in read_metadata(raw / "val2019.json")["images"]}
    archives = {
        public / "train_val2019.tar": {name: name for name in kept},
        public / "test2019.tar": {old: f"test2019/{new}" for old, new in renamed.items()},
    }
    first.write_archives(raw, archives)
