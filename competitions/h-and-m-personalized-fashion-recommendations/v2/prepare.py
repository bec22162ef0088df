from pathlib import Path

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    first.write_sides(7, {"price": float, "article_id": str}, raw, public, private)
