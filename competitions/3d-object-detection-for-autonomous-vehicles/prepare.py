import json
from collections.abc import Callable, Container, Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_mlebench.authoring.files import link, link_files
from pytest_mlebench.authoring.tables import read_csv, split, write_csv

FOLDERS = {"jpeg": "images", "bin": "lidar"}  # folder of a sensor's files, by format
MAP = "map_raster_palo_alto.png"


def prepare(raw: Path, public: Path, private: Path) -> None:
    logs = _load(raw, "log")
    train_logs, test_logs = split_logs(raw)
    samples = _load(raw, "sample")
    boxes = read_csv(raw / "train.csv")
    for side, tokens in (("train", train_logs), ("test", test_logs)):
        of_side = _having("scene_token", tokens)  # a scene and its log have the same token
        side_samples = [sample for sample in samples if of_side(sample)]
        _dump(side_samples, public, side, "sample")
        _dump(filter(_having("token", tokens), logs), public, side, "log")
        _dump(filter(_having("log_token", tokens), _load(raw, "scene")), public, side, "scene")
        # Like the reference, list the test logs in the maps of both sides.
        _dump([entry | {"log_tokens": test_logs} for entry in _load(raw, "map")], public, side, "map")
        link(raw / "train_maps" / MAP, public / f"{side}_maps" / MAP)
        for name in ("attribute", "category", "sensor", "visibility"):
            link(raw / "train_data" / f"{name}.json", public / f"{side}_data" / f"{name}.json")

        ids = {sample["token"] for sample in side_samples}
        _place_sensor_data(raw, public, side, ids)
        side_boxes = boxes[boxes["Id"].isin(ids)]
        if side == "train":
            write_csv(side_boxes, public / "train.csv")
            _place_annotations(raw, public, ids)
        else:
            scored = side_boxes["PredictionString"].str.split(" ").map(_with_confidence)
            write_csv(side_boxes.assign(PredictionString=scored), private / "test.csv")
            write_csv(side_boxes.assign(PredictionString=""), public / "sample_submission.csv")


def split_logs(raw: Path) -> tuple[list[str], list[str]]:
    """Return the tokens of the training logs and of the test logs."""
    return split([log["token"] for log in _load(raw, "log")], test_size=0.2)


def _place_sensor_data(raw: Path, public: Path, side: str, samples: set[str]) -> None:
    data = [datum for datum in _load(raw, "sample_data") if datum["sample_token"] in samples]
    _dump(data, public, side, "sample_data")
    calibrated = {entry["token"]: entry for entry in _load(raw, "calibrated_sensor")}
    used = dict.fromkeys(datum["calibrated_sensor_token"] for datum in data)
    _dump([calibrated[token] for token in used], public, side, "calibrated_sensor")
    poses = {pose["token"]: pose for pose in _load(raw, "ego_pose")}
    _dump([poses[datum["ego_pose_token"]] for datum in data], public, side, "ego_pose")
    files = ((FOLDERS[datum["fileformat"]], PurePosixPath(datum["filename"]).name) for datum in data)
    link_files({f"train_{folder}/{name}": f"{side}_{folder}/{name}" for folder, name in files}, raw, public)


def _place_annotations(raw: Path, public: Path, samples: set[str]) -> None:
    annotations = list(filter(_having("sample_token", samples), _load(raw, "sample_annotation")))
    _dump(annotations, public, "train", "sample_annotation")
    instances = {annotation["instance_token"] for annotation in annotations}
    _dump(filter(_having("token", instances), _load(raw, "instance")), public, "train", "instance")


def _with_confidence(parts: list[str]) -> str:
    return " ".join(f"1.0 {' '.join(parts[k : k + 8])}" for k in range(0, len(parts), 8))


def _having(key: str, tokens: Container[str]) -> Callable[[dict[str, Any]], bool]:
    return lambda row: row[key] in tokens


def _load(raw: Path, name: str) -> list[dict[str, Any]]:
    return json.loads((raw / "train_data" / f"{name}.json").read_bytes())


def _dump(rows: Iterable[dict[str, Any]], public: Path, side: str, name: str) -> None:
    path = public / f"{side}_data" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(list(rows)))
