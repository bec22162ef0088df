import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard

from .prepare import MAP

CLASSES = ["car", "pedestrian", "animal", "other_vehicle", "bus", "motorcycle", "truck", "emergency_vehicle", "bicycle"]
WEIGHTS = [0.4, 0.2, 0.05, 0.1, 0.05, 0.05, 0.05, 0.05, 0.05]

Rows = list[dict[str, Any]]
Box = tuple[float, np.ndarray, str]  # confidence, seven numbers, class


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for side in ("train", "test"):
        for folder in ("data", "images", "lidar", "maps"):
            (raw / f"{side}_{folder}").mkdir()

    def token() -> str:
        return rng.bytes(6).hex()

    logs, scenes, samples, data, poses, calibrated, annotations, instances, strings = ([] for _ in range(9))
    sensors = [
        {"modality": modality, "channel": channel, "token": token()}
        for modality, channel in (("camera", "CAM_FRONT"), ("lidar", "LIDAR_TOP"))
    ]
    categories = [{"description": f"a {name}", "token": token(), "name": name} for name in CLASSES]
    attributes = [
        {"description": "stands still", "token": token(), "name": name}
        for name in ("object_action_parked", "is_stationary")
    ]
    visibility = [{"description": f"visibility {k}", "token": str(k), "level": f"v{k}"} for k in range(1, 5)]
    shared = token()
    for k in range(16):
        log = token()  # a scene and its log have the same token
        logs.append(
            {
                "date_captured": "2019-01-22",
                "location": "Palo Alto – Südseite",
                "token": log,
                "vehicle": f"a{k:03d}",
                "logfile": "",
                "map_token": "m1",
            }
        )
        rigs = [token() for _ in sensors] if k % 7 else [shared, token()]
        for rig, sensor in zip(rigs, sensors, strict=True):
            if rig not in {entry["token"] for entry in calibrated}:
                calibrated.append(
                    {
                        "sensor_token": sensor["token"],
                        "rotation": [1.0, 0, 1e-05, -0.0],
                        "camera_intrinsic": [],
                        "translation": np.round(rng.normal(size=3), 4).tolist(),
                        "token": rig,
                    }
                )
        objects = [(token(), str(rng.choice(CLASSES, p=WEIGHTS))) for _ in range(int(rng.integers(2, 5)))]
        seen = []
        names = [token() for _ in range(4)]
        for j, sample in enumerate(names):
            time = 1548182003996270.5 + 2e5 * j + 10**9 * k
            samples.append(
                {
                    "next": [*names, ""][j + 1],
                    "prev": ["", *names][j],
                    "token": sample,
                    "timestamp": time,
                    "scene_token": log,
                }
            )
            pose = token()
            for i, (suffix, rig) in enumerate(zip(("jpeg", "bin"), rigs, strict=True)):
                if i and j % 2:  # every second sample lacks lidar data
                    continue
                if i and k % 2:  # some sensors share a pose
                    pose = token()
                if pose not in {entry["token"] for entry in poses}:
                    poses.append(
                        {
                            "rotation": np.round(rng.normal(size=4), 9).tolist(),
                            "translation": [float(rng.uniform(0, 3e3)), 7, 0.0],
                            "token": pose,
                            "timestamp": time,
                        }
                    )
                name = f"host-a{k:03d}_{'lidar1' if i else 'cam0'}_{int(time) * 1000}.{suffix}"
                folder = "lidar" if i else "images"
                datum = {
                    "width": None if i else 1224,
                    "height": None if i else 1024,
                    "calibrated_sensor_token": rig,
                    "token": token(),
                    "sample_token": sample,
                    "is_key_frame": True,
                    "prev": "",
                    "fileformat": suffix,
                    "ego_pose_token": pose,
                    "timestamp": time,
                    "next": "",
                    "filename": f"{folder}/{name}",
                }
                data.append(datum)
                if i and k == 3 and j == 0:  # one file listed twice
                    data.append(datum | {"token": token(), "is_key_frame": False})
                (raw / f"train_{folder}" / name).write_bytes(rng.bytes(6))
            boxes: list[str] = []
            for instance, label in objects:
                if boxes and rng.random() < 0.2:  # not always visible
                    continue
                seen.append((instance, label))
                low, high = [900, -1400, -24, 0.5, 0.6, 0.8], [1000, -1300, -15, 2.5, 6, 3]
                values = [round(float(value), 3) for value in rng.uniform(low, high)]
                yaw = float(rng.uniform(-np.pi, np.pi))
                boxes.append(" ".join(map(repr, [*values, yaw])) + f" {label}")
                annotations.append(
                    {
                        "token": token(),
                        "num_lidar_pts": -1,
                        "size": values[3:],
                        "sample_token": sample,
                        "rotation": [float(np.cos(yaw / 2)), 0, 0, float(np.sin(yaw / 2))],
                        "prev": "",
                        "translation": values[:3],
                        "num_radar_pts": 0,
                        "attribute_tokens": [attributes[0]["token"]],
                        "next": "",
                        "instance_token": instance,
                        "visibility_token": "",
                    }
                )
            strings.append((sample, " ".join(boxes)))
        for instance, label in dict.fromkeys(seen):
            instances.append(
                {
                    "last_annotation_token": "",
                    "category_token": categories[CLASSES.index(label)]["token"],
                    "token": instance,
                    "first_annotation_token": "",
                    "nbr_annotations": seen.count((instance, label)),
                }
            )
        scenes.append(
            {
                "log_token": log,
                "first_sample_token": names[0],
                "name": f"host-a{k:03d}-lidar0",
                "description": "",
                "last_sample_token": names[-1],
                "nbr_samples": 4,
                "token": log,
            }
        )

    maps = [
        {
            "log_tokens": [log["token"] for log in logs],
            "category": "semantic_prior",
            "filename": f"maps/{MAP}",
            "token": "m1",
        }
    ]

    def shuffled(rows: Sequence[Any]) -> list[Any]:
        return [rows[k] for k in rng.permutation(len(rows))]

    tables = {
        "log": shuffled(logs),
        "scene": shuffled(scenes),
        "sample": shuffled(samples),
        "sample_data": shuffled(data),
        "ego_pose": shuffled(poses),
        "calibrated_sensor": shuffled(calibrated),
        "sample_annotation": shuffled(annotations),
        "instance": shuffled(instances),
        "sensor": sensors,
        "category": categories,
        "attribute": attributes,
        "visibility": visibility,
        "map": maps,
    }
    for table, rows in tables.items():
        text = json.dumps(rows, separators=(",", ":"), ensure_ascii=False)
        (raw / "train_data" / f"{table}.json").write_text(text, encoding="utf-8")
    boxes_table = pd.DataFrame(shuffled(strings), columns=["Id", "PredictionString"])
    boxes_table.to_csv(raw / "train.csv", index=False)
    for side in ("train", "test"):
        (raw / f"{side}_maps" / MAP).write_bytes(b"\x89PNG\r\n\x1a\n" + rng.bytes(20))
    (raw / "test_data" / "log.json").write_text("[]")
    (raw / "test_lidar" / "host-a999_lidar1_1.bin").write_bytes(b"12")
    (raw / "test_images" / "host-a999_cam0_1.jpeg").write_bytes(b"12")
    pd.DataFrame({"Id": [token()], "PredictionString": [""]}).to_csv(raw / "sample_submission.csv", index=False)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    fields = answers["PredictionString"].str.split(" ")
    truth = [[parts[k : k + 9] for k in range(0, len(parts), 9)] for parts in fields]

    def build(change: Callable[[int, np.ndarray, str], list[Box]]) -> pd.DataFrame:
        """``change`` returns the boxes to write for a true box, from sample number, seven numbers and class."""
        rows = []
        for k, boxes in enumerate(truth):
            written = [box for _, *values, label in boxes for box in change(k, np.array(values, float), label)]
            rows.append(" ".join(f"{s} {' '.join(f'{x:.6g}' for x in values)} {label}" for s, values, label in written))
        return answers.assign(PredictionString=rows)

    def moved(shift: Callable[[int, np.ndarray], np.ndarray]) -> pd.DataFrame:
        return build(lambda k, values, label: [(1.0, shift(k, values), label)])

    def jitter(values: np.ndarray, size: float = 1.0) -> np.ndarray:
        return values + size * rng.normal(size=7) * [0.08, 0.08, 0.06, 0.05, 0.08, 0.05, 0.04]

    def score() -> float:
        return round(float(rng.random()), 3)

    def noisy(_: int, values: np.ndarray, label: str) -> list[Box]:
        boxes = [(score(), jitter(values), label)] if rng.random() < 0.9 else []
        if rng.random() < 0.5:
            boxes.append((score(), jitter(values, 3), label))
        return boxes

    good = build(noisy)
    texts = good["PredictionString"]
    aside = np.array([30, 0, 0, 0, 0, 0, 0])
    near = [jitter(np.zeros(7), 1.2) for _ in range(99)]
    x, y, z, *_, yaw = np.eye(7)
    plain = moved(lambda k, values: values)["PredictionString"]

    def overwrite(text: str) -> pd.DataFrame:
        return good.assign(PredictionString=[text, *texts.iloc[1:]])

    first = truth[0][0][1:]

    def broken(position: int, value: str) -> pd.DataFrame:
        return overwrite(" ".join(["1.0", *first[:position], value, *first[position + 1 :]]))

    return {
        "columns_swapped_with_extra": good.assign(note="n")[["note", "PredictionString", "Id"]],
        "exact_boxes_twice": build(lambda k, values, label: [(1.0, values, label)] * 2),
        "good_box_scored_lower": build(
            lambda k, values, label: [
                (0.2, values, label),
                (0.8, values + 0.1 * x + 0.1 * y + 0.05 * z, label),
                (0.5, values + aside, label),
            ]
        ),
        "equal_scores": build(lambda k, values, label: [(0.5, values + aside, label), (0.5, values, label)]),
        "negative_scores": build(
            lambda k, values, label: [(-score(), values + near[k], label), (-5e9, values + near[k + 40], label)]
        ),
        "classes_that_are_not_there": build(
            lambda k, values, label: [(1.0, values, label), (0.9, values + 50 * x + 50 * y, "unicorn")]
        ),
        "invalid_box_of_another_class": build(
            lambda k, values, label: [(1.0, values, label), (1.0, values * np.nan, "unicorn")]
        ),
        "all_called_car": build(lambda k, values, label: [(score(), values, "car")]),
        "turned_round": moved(lambda k, values: values + 3 * np.pi * yaw),
        "turned_a_quarter": moved(lambda k, values: values + np.pi / 2 * yaw),
        "width_and_length_swapped": moved(lambda k, values: values[[0, 1, 2, 4, 3, 5, 6]]),
        "raised": moved(lambda k, values: values + 0.011 * (k + 1) * values[5] * z),
        "grown": moved(lambda k, values: values * [1, 1, 1, 1 + 0.013 * k, 1 + 0.007 * k, 1.021, 1]),
        "half_empty": good.assign(PredictionString=texts.where(np.arange(len(texts)) % 2 == 0, "")),
        "all_empty": good.assign(PredictionString=""),
        **first_value(good, "PredictionString", only_spaces="   ", one_token_short=" ".join(["1.0", *first[:-1]])),
        **first_value(good, "PredictionString", text_for_confidence=" ".join(["sure", *first])),
        "without_confidence": good.assign(
            PredictionString=[" ".join(part for k, part in enumerate(text.split(" ")) if k % 9) for text in plain]
        ),
        "trailing_space": good.assign(PredictionString=texts + " "),
        "double_spaces": good.assign(PredictionString=texts.str.replace(" ", "  ")),
        "text_for_a_number": broken(1, "north"),
        "nan_centre": broken(0, "nan"),
        "infinite_centre": broken(0, "inf"),
        "nan_size": broken(4, "nan"),
        "nan_yaw": broken(6, "nan"),
        "zero_size": broken(3, "0"),
        "negative_size": broken(5, "-1.5"),
        "numbers_only": good.assign(PredictionString=1.5),
        **standard(good, "Id", "zz", "PredictionString", "missing_column renamed_id"),
    }
