from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard

from .prepare import LABELS

Box = tuple[Any, ...]  # label, confidence, and four corners


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    studies, images = [], []
    for _ in range(96 + 12 * seed):
        study = _id(rng)
        kind = int(rng.choice(4, p=[0.3, 0.35, 0.2, 0.15]))
        flags = [int(k == kind) for k in range(4)]
        if rng.random() < 0.1:  # not in the real data: two appearances, or none
            flags[int(rng.integers(4))] = 1
        elif rng.random() < 0.05:
            flags = [0] * 4
        studies.append((f"{study}_study", *flags))
        for _ in range(rng.choice([1, 1, 1, 1, 2, 3])):
            image, series = _id(rng), _id(rng)
            folder = raw / "train" / study / series
            folder.mkdir(parents=True)
            (folder / f"{image}.dcm").write_bytes(b"DICM" + rng.bytes(3))
            boxes, text = None, "none 1 0 0 1 1"
            if not (kind == 0 or rng.random() < 0.15):
                boxes, text = _opacities(rng)
            images.append((f"{image}_image", boxes, text, study))
    image_table = pd.DataFrame(images, columns=["id", "boxes", "label", "StudyInstanceUID"])
    image_table = image_table.iloc[rng.permutation(len(image_table))]
    pd.DataFrame(studies, columns=["id", *LABELS]).to_csv(raw / "train_study_level.csv", index=False)
    image_table.to_csv(raw / "train_image_level.csv", index=False)
    folder = raw / "test" / "00188a671292" / "aaa"
    folder.mkdir(parents=True)
    (folder / "bbb.dcm").write_bytes(b"DICM")
    sample = "id,PredictionString\n00188a671292_study,negative 1 0 0 1 1\nbbb_image,none 1 0 0 1 1\n"
    (raw / "sample_submission.csv").write_text(sample)


def _id(rng: np.random.Generator) -> str:
    return "".join(rng.choice(list("0123456789abcdef"), 12))


def _rectangle(rng: np.random.Generator) -> np.ndarray:
    """Return x, y, width and height."""
    return rng.uniform([0, 0, 300, 300], [2000, 1500, 1200, 1900])


def _opacities(rng: np.random.Generator) -> tuple[str, str]:
    boxes, texts = [], []
    for _ in range(rng.integers(1, 4)):
        x, y, width, height = (round(float(value), 5) for value in _rectangle(rng))
        boxes.append({"x": x, "y": y, "width": width, "height": height})
        texts.append(f"opacity 1 {x} {y} {x + width} {y + height}")
    return str(boxes), " ".join(texts)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    is_study = answers["id"].str.endswith("_study")
    truth = [_parse(text) for text in answers["PredictionString"]]

    def build(predict: Callable[[bool, list[Box]], list[Box]]) -> pd.DataFrame:
        texts = [_text(predict(study, boxes)) for study, boxes in zip(is_study, truth, strict=True)]
        return answers.assign(PredictionString=texts)

    def confidence() -> float:
        return round(float(rng.random()), 3)

    def jittered(box: Box) -> tuple[float, ...]:
        _, _, x0, y0, x1, y1 = box
        width, height = x1 - x0, y1 - y0
        shift = rng.normal(0, 0.12, 4)
        return x0 + shift[0] * width, y0 + shift[1] * height, x1 + shift[2] * width, y1 + shift[3] * height

    def noisy(study: bool, boxes: list[Box]) -> list[Box]:
        if study:
            scores = rng.dirichlet(np.ones(4)) + [0.5 * (label == boxes[0][0]) for label in LABELS.values()]
            return [
                (label, round(score / 1.5, 3), 0, 0, 1, 1) for label, score in zip(LABELS.values(), scores, strict=True)
            ]
        found: list[Box] = [("none", confidence() * (0.5 if boxes[0][0] == "opacity" else 1), 0, 0, 1, 1)]
        for box in boxes:
            if box[0] == "opacity" and rng.random() < 0.85:
                found.append(("opacity", confidence(), *jittered(box)))
                if rng.random() < 0.4:  # a duplicate of the box
                    found.append(("opacity", confidence(), *jittered(box)))
        for _ in range(rng.integers(0, 2)):
            x, y, width, height = _rectangle(rng)
            found.append(("opacity", confidence() / 2, x, y, x + width, y + height))
        return found

    def rescored(change: Callable[[float], float]) -> pd.DataFrame:
        return build(
            lambda study, boxes: [(label, change(score), *corners) for label, score, *corners in noisy(study, boxes)]
        )

    def reshaped(corners: Callable[..., tuple[float, ...]]) -> pd.DataFrame:
        return build(lambda _, boxes: [(label, 0.8, *corners(*rest)) for label, _, *rest in boxes])

    def half(_: bool, boxes: list[Box]) -> list[Box]:
        """Return boxes with an intersection over union of exactly one half, and just above."""
        return [
            (label, 0.9 - 0.1 * k, x0, y0, x1, y0 + (y1 - y0) * (0.5 + 0.001 * (k % 2)))
            for k, (label, _, x0, y0, x1, y1) in enumerate(boxes)
        ]

    def unknown(study: bool, boxes: list[Box]) -> list[Box]:
        return [*noisy(study, boxes), ("lesion", 0.99, 0, 0, 1, 1), ("None", 0.7, 0, 0, 1, 1)]

    def everything(_: bool, boxes: list[Box]) -> list[Box]:
        dummies = [(label, confidence(), 0, 0, 1, 1) for label in [*LABELS.values(), "none"]]
        return dummies + [("opacity", confidence(), *box[2:]) for box in boxes]

    good = build(noisy)
    texts = good["PredictionString"]

    names = ["negative", "typical", "atypical", "indeterminate", "x", "y"]
    without_confidence = " ".join(f"{label} 0 0 1 1" for label in names)
    return {
        "top_only": build(lambda study, boxes: [max(noisy(study, boxes), key=lambda box: box[1])]),
        "ties": rescored(lambda score: 0.5),
        "beyond_zero_and_one": rescored(lambda score: score * 6 - 2),
        "some_zero_confidence": rescored(lambda score: 0 if score < 0.4 else score),
        "iou_one_half": build(half),
        "other_dummy_box": reshaped(lambda *_: (5, 5, 6, 6)),
        "unknown_classes": build(unknown),
        "flipped_corners": reshaped(lambda x0, y0, x1, y1: (x1, y1, x0, y0)),
        "no_area": reshaped(lambda x0, y0, x1, y1: (x0, y0, x0, y0)),
        "everything_everywhere": build(everything),
        "blank_everywhere": good.assign(PredictionString=" "),
        **first_value(good, "PredictionString", blank_once=" ", seven_tokens="negative 1 0 0 1 1 typical"),
        **first_value(good, "PredictionString", five_tokens="negative 1 0 0 1", no_confidence=without_confidence),
        **first_value(good, "PredictionString", text_confidence="negative high 0 0 1 1"),
        **first_value(good, "PredictionString", nan_confidence="negative nan 0 0 1 1"),
        **first_value(good, "PredictionString", infinite_confidence="negative inf 0 0 1 1"),
        **first_value(good, "PredictionString", nan_box="negative 0.5 nan 0 1 1", empty_prediction=None),
        "odd_spacing": good.assign(PredictionString="  " + texts.str.replace(" ", "   ")),
        "column_order_and_extra": good.assign(extra=1)[["extra", "PredictionString", "id"]],
        "column_named_Id": good.rename(columns={"id": "Id"}),
        "all_empty": good.assign(PredictionString=None),
        "numbers_only": good.assign(PredictionString=1),
        "missing_prediction": good[["id"]],
        **standard(good, "id", "ffffffffffff_image", also="missing_id"),
    }


def _parse(text: str) -> list[Box]:
    parts = text.split()
    return [(parts[k], *map(float, parts[k + 1 : k + 6])) for k in range(0, len(parts), 6)]


def _text(boxes: list[Box]) -> str:
    return " ".join(" ".join([label, *(f"{number:.6g}" for number in numbers)]) for label, *numbers in boxes) or " "
