import json
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import png
from pytest_mlebench.authoring.worlds.images import grey, jpeg, smooth_noise
from pytest_mlebench.authoring.worlds.labels import by_size, random_names

from .prepare import MAP
from .synthetic import CLASSES

SIZES = {"car": (1.9, 4.7, 1.7), "pedestrian": (0.8, 0.8, 1.8), "truck": (2.8, 9.0, 3.3), "bicycle": (0.7, 1.8, 1.5)}
SHARES = [0.6, 0.2, 0.1, 0.1]  # of these classes, whose sizes are width, length and height in metres
ROAD = -20.0  # height of the ground in metres
Row = dict[str, object]


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    logs, per_log = by_size(size, (10, 26), (16, 25), (40, 30))
    # the world: the direction of the road, and how sizes vary
    heading, spread = rng.uniform(-np.pi, np.pi), rng.uniform(0.03, 0.06)
    names = iter(random_names(rng, 40 * logs * per_log, 64))
    tables: dict[str, list[Row]] = {
        name: []
        for name in (
            "log",
            "scene",
            "sample",
            "sample_data",
            "ego_pose",
            "calibrated_sensor",
            "sample_annotation",
            "instance",
        )
    }
    tables["sensor"] = [
        {"modality": m, "channel": c, "token": next(names)}
        for m, c in (("camera", "CAM_FRONT"), ("lidar", "LIDAR_TOP"))
    ]
    tables["category"] = [{"description": "", "token": next(names), "name": name} for name in CLASSES]
    tables["attribute"] = [{"description": "", "token": next(names), "name": "object_action_parked"}]
    tables["visibility"] = [{"description": "", "token": str(k), "level": f"v{k}"} for k in range(1, 5)]
    for side in ("train", "test"):
        for folder in ("data", "images", "lidar", "maps"):
            (raw / f"{side}_{folder}").mkdir()
        (raw / f"{side}_maps" / MAP).write_bytes(png(grey(smooth_noise(rng, (64, 64), 4))))
    rows = [row for k in range(logs) for row in _drive(raw, k, per_log, heading, spread, tables, names, rng)]
    logs_tokens = [log["token"] for log in tables["log"]]
    tables["map"] = [
        {"log_tokens": logs_tokens, "category": "semantic_prior", "filename": f"maps/{MAP}", "token": next(names)}
    ]
    for name, entries in tables.items():
        (raw / "train_data" / f"{name}.json").write_text(json.dumps(entries, indent=0))
        (raw / "test_data" / f"{name}.json").write_text("[]")
    table = pd.DataFrame(rows, columns=["Id", "PredictionString", "simple", "ceiling"])
    table = table.iloc[rng.permutation(len(table))]
    table[["Id", "PredictionString"]].to_csv(raw / "train.csv", index=False)
    pd.DataFrame({"Id": [next(names)], "PredictionString": [""]}).to_csv(raw / "sample_submission.csv", index=False)
    known = table.set_index("Id")
    return {name: known[[name]].set_axis(["PredictionString"], axis=1) for name in ("simple", "ceiling")}


def _drive(raw, number, samples, heading, spread, tables, names, rng) -> list[tuple[str, str, str, str]]:
    """Write the files of a log with one scene, and extend the tables; returns ids, boxes and predictions."""
    log, host, start = next(names), f"host-a{number:03d}", 1548182003996270 + 10**11 * number
    tokens, rigs = [next(names) for _ in range(samples)], [next(names), next(names)]
    _add_log(tables, log, host, tokens, rigs)
    here = rng.uniform(500, 2500, 2)
    rows = []
    for j, token in enumerate(tokens):
        time, here = start + 200000 * j, here + 8 * np.array([np.cos(heading), np.sin(heading)])
        tables["sample"].append(
            {
                "next": [*tokens, ""][j + 1],
                "prev": ["", *tokens][j],
                "token": token,
                "timestamp": float(time),
                "scene_token": log,
            }
        )
        turn, pose = float(heading + rng.normal(0, 0.05)), next(names)
        tables["ego_pose"].append(
            {
                "rotation": _rotation(turn),
                "translation": [*here.round(3).tolist(), ROAD],
                "token": pose,
                "timestamp": float(time),
            }
        )
        objects = [_object(here, heading, spread, rng) for _ in range(rng.integers(2, 6))]
        points = _points(objects, here, turn, rng).astype("<f4").tobytes()
        picture = jpeg(grey(smooth_noise(rng, (32, 40), 3))[..., None].repeat(3, axis=2), block=2500)
        files = ("images", f"{host}_cam0_{time}.jpeg", picture), ("lidar", f"{host}_lidar1_{time}.bin", points)
        for rig, file in zip(rigs, files, strict=True):
            _save(raw, tables, names, (rig, token, pose), time, *file)
        texts: list[list[str]] = [[], [], []]
        for label, box in objects:
            drawn = box + rng.normal(0, [0.03, 0.03, 0.03, 0.02, 0.05, 0.03, 0.01])
            usual = np.array([*(box[:3] + rng.normal(0, 0.12, 3)), *SIZES[label], heading])
            for text, values, confidence in zip(texts, (drawn, usual, box), ("", "0.5 ", "0.9 "), strict=True):
                text.append(confidence + " ".join(f"{value:.4f}" for value in values) + f" {label}")
            _annotate(tables, token, label, drawn.round(4), names)
        rows.append((token, *(" ".join(text) for text in texts)))
    return rows


def _add_log(tables: dict[str, list[Row]], log: str, host: str, tokens: list[str], rigs: list[str]) -> None:
    """Add a log, its scene with the same token, and the calibration of its sensors."""
    tables["log"].append(
        {
            "date_captured": "2019-01-22",
            "location": "Palo Alto",
            "token": log,
            "vehicle": host[5:],
            "logfile": "",
            "map_token": "",
        }
    )
    tables["scene"].append(
        {
            "log_token": log,
            "first_sample_token": tokens[0],
            "name": f"{host}-lidar0",
            "description": "",
            "last_sample_token": tokens[-1],
            "nbr_samples": len(tokens),
            "token": log,
        }
    )
    for rig, sensor in zip(rigs, tables["sensor"], strict=True):
        tables["calibrated_sensor"].append(
            {
                "sensor_token": sensor["token"],
                "rotation": [1.0, 0.0, 0.0, 0.0],
                "camera_intrinsic": [],
                "translation": [0.0, 0.0, 1.8],
                "token": rig,
            }
        )


def _save(raw, tables, names, about: tuple[str, str, str], time: int, folder: str, name: str, content: bytes) -> None:
    """Write a sensor's file and its entry; ``about`` are the tokens of the calibration, the sample and the pose."""
    rig, token, pose = about
    (raw / f"train_{folder}" / name).write_bytes(content)
    shape = {"width": 40, "height": 32} if folder == "images" else {"width": None, "height": None}
    tables["sample_data"].append(
        {
            **shape,
            "calibrated_sensor_token": rig,
            "token": next(names),
            "sample_token": token,
            "is_key_frame": True,
            "prev": "",
            "fileformat": name.split(".")[-1],
            "ego_pose_token": pose,
            "timestamp": float(time),
            "next": "",
            "filename": f"{folder}/{name}",
        }
    )


def _annotate(tables: dict[str, list[Row]], sample: str, label: str, box: np.ndarray, names) -> None:
    instance, annotation = next(names), next(names)
    category = next(entry["token"] for entry in tables["category"] if entry["name"] == label)
    tables["instance"].append(
        {
            "last_annotation_token": annotation,
            "category_token": category,
            "token": instance,
            "first_annotation_token": annotation,
            "nbr_annotations": 1,
        }
    )
    tables["sample_annotation"].append(
        {
            "token": annotation,
            "num_lidar_pts": -1,
            "size": box[3:6].tolist(),
            "sample_token": sample,
            "rotation": _rotation(float(box[6])),
            "prev": "",
            "translation": box[:3].tolist(),
            "num_radar_pts": 0,
            "attribute_tokens": [],
            "next": "",
            "instance_token": instance,
            "visibility_token": "",
        }
    )


def _rotation(turn: float) -> list[float]:
    """Return the rotation as a quaternion."""
    return [round(float(np.cos(turn / 2)), 9), 0.0, 0.0, round(float(np.sin(turn / 2)), 9)]


def _object(here: np.ndarray, heading: float, spread: float, rng: np.random.Generator) -> tuple[str, np.ndarray]:
    """Return a class, and a box in world coordinates: centre, width, length, height and yaw."""
    label = str(rng.choice(list(SIZES), p=SHARES))
    sides = np.array(SIZES[label]) * np.exp(rng.normal(0, spread, 3))
    lane, away = rng.choice([-9, -4.5, 4.5, 9]) + rng.normal(0, 0.5), rng.uniform(-28, 28)
    across = np.array([-np.sin(heading), np.cos(heading)])
    place = here + away * np.array([np.cos(heading), np.sin(heading)]) + lane * across
    yaw = heading + rng.normal(0, 0.12) + (np.pi if rng.random() < 0.3 else 0)
    return label, np.array([*place, ROAD + sides[2] / 2, *sides, (yaw + np.pi) % (2 * np.pi) - np.pi])


def _points(
    objects: list[tuple[str, np.ndarray]], here: np.ndarray, turn: float, rng: np.random.Generator
) -> np.ndarray:
    """Return 600 points (x, y, z, strength, ring) of objects, ground and shrubs, in the sensor's coordinates."""
    clouds = []
    for _, (x, y, z, width, length, height, yaw) in objects:
        inside = rng.uniform(-0.5, 0.5, (90, 3))
        face = rng.integers(0, 3, 90)
        inside[np.arange(90), face] = np.where(face == 2, 0.5, np.sign(inside[np.arange(90), face]) * 0.5)
        along, across = length * inside[:, 0], width * inside[:, 1]
        clouds.append(
            np.column_stack(
                [
                    x + along * np.cos(yaw) - across * np.sin(yaw),
                    y + along * np.sin(yaw) + across * np.cos(yaw),
                    z + height * inside[:, 2],
                ]
            )
        )
    for _ in range(3):
        shrub = [*(here + rng.uniform(-30, 30, 2)), ROAD + 0.5]
        clouds.append(shrub + rng.normal(0, 0.5, (15, 3)))
    found = np.concatenate(clouds) + rng.normal(0, 0.02, (sum(map(len, clouds)), 3))
    ground = np.column_stack([here + rng.uniform(-35, 35, (600 - len(found), 2)), np.full(600 - len(found), ROAD)])
    points = rng.permutation(np.concatenate([found, ground])) - [*here, ROAD + 1.8]
    turned = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    points[:, :2] = points[:, :2] @ turned
    return np.column_stack([points.round(3), rng.uniform(0, 100, 600).round(1), rng.integers(0, 64, 600)])
