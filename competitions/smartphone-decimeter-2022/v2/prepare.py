from pathlib import Path

from .v1 import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    first.prepare(raw, public, private)
    for log in (public / "test").rglob("span_log.nmea"):
        log.unlink()
