"""The bundled baseline on data other than a single table or a folder of images."""

from __future__ import annotations

import io
import json
import runpy
import tarfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from pytest_mlebench.io.files import bundled
from pytest_mlebench.sandbox.docker.client import connect
from pytest_mlebench.sandbox.docker.sandbox import DockerSandbox

pytestmark = pytest.mark.full

if TYPE_CHECKING:
    from tests.agents.conftest import Start


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (folder := tmp_path / "data").mkdir()
    return folder


@pytest.mark.docker
def test_names_with_long_exponents_do_not_crash_the_environments_pandas() -> None:
    """Before version 3, pandas reads outside its memory at some of them."""
    code = (
        "import sys; sys.path.insert(0, '/agent'); import pandas as pd; from tables import to_numbers\n"
        "values = ['64e2504204546.jpg', '1e2147483648', '0.1e2147483800', '2e3']\n"
        "print([to_numbers(pd.Series(values, dtype=dtype)).tolist() for dtype in (object, 'string')])"
    )
    image, volumes = DockerSandbox().images.environment(), {str(bundled("agents") / "baseline"): {"bind": "/agent"}}
    with closing(connect()) as client:
        run = client.containers.run
        said = run(image, ["-B", "-c", code], entrypoint="python3", remove=True, volumes=volumes).decode()
    assert said == "[[nan, nan, nan, 2000.0], [<NA>, <NA>, <NA>, 2000.0]]\n"


def test_it_recommends_recent_purchases_before_popular_items(data: Path, start: Start) -> None:
    days = pd.date_range("2020-01-01", "2020-02-29").strftime("%Y-%m-%d")
    bought = [(day, f"c{k}", str(100 + 10 * k + place // 30)) for place, day in enumerate(days) for k in range(3)]
    bought += [(day, f"{other}{place}", "777") for place, day in enumerate(days) for other in "de"]
    pd.DataFrame(sorted(bought), columns=["day", "who", "item"]).to_csv(data / "transactions.csv", index=False)
    sample = pd.DataFrame({"who": ["c2", "c0", "new"], "prediction": "0777 0101 0112"})
    sample.to_csv(data / "sample_submission.csv", index=False)
    ran = start("baseline", data)
    found = pd.read_csv(ran.submission, dtype=str)
    assert list(found["who"]) == ["c2", "c0", "new"], ran.output
    assert [items.split()[0] for items in found["prediction"]] == ["121", "101", "777"], ran.output


def test_it_predicts_a_value_for_each_position_in_a_sequence(data: Path, start: Start) -> None:
    rng = np.random.default_rng(0)
    records = []
    for k in range(40):
        letters = rng.choice(list("ACGU"), 20)
        values = [round(float((a == "A") + 2 * (b == "G")), 3) for a, b in zip(letters, ["", *letters], strict=False)]
        records.append({"id": f"m{k}", "letters": "".join(letters), "decay": values[:15]})
    train, test = pd.DataFrame(records[:30]), pd.DataFrame(records[30:])
    train.to_json(data / "train.json", orient="records", lines=True)
    test.drop(columns="decay").to_json(data / "test.json", orient="records", lines=True)
    ids = [f"{id}_{k}" for id in test["id"] for k in range(20)]
    pd.DataFrame({"id_place": ids, "decay": 0.0}).to_csv(data / "sample_submission.csv", index=False)
    ran = start("baseline", data)
    found = pd.read_csv(ran.submission)["decay"].to_numpy().reshape(-1, 20)[:, :15]
    assert np.abs(found - np.array(test["decay"].to_list())).mean() < 0.3, ran.output


def test_it_looks_up_both_players_named_in_an_id(data: Path, start: Start) -> None:
    rng = np.random.default_rng(0)
    for kind in ("train", "test"):
        places, rows = [], []
        for game in range(6 if kind == "train" else 2):
            for player in range(8):
                x, y = rng.random(2).round(3)
                places.append((f"{kind}_{game}", f"p{player}", x, y))
                for other in range(player):
                    apart = np.hypot(x - places[-1 - player + other][2], y - places[-1 - player + other][3])
                    rows.append((f"{kind}_{game}", f"p{other}", f"p{player}", int(apart < 0.4)))
        named = pd.DataFrame(places, columns=["game", "player", "x", "y"])
        named.to_csv(data / f"{kind}_places.csv", index=False)
        pairs = pd.DataFrame(rows, columns=["game", "player_1", "player_2", "near"])
        pairs.insert(0, "pair", pairs["game"] + "_" + pairs["player_1"] + "_" + pairs["player_2"])
        if kind == "train":
            pairs.to_csv(data / "train_labels.csv", index=False)
    pairs[["pair"]].assign(near=0).to_csv(data / "sample_submission.csv", index=False)
    (data / "description.md").write_text("## Evaluation\nAccuracy.")
    ran = start("baseline", data)
    found = pd.read_csv(ran.submission)
    assert list(found["pair"]) == list(pairs["pair"])
    assert (found["near"] == pairs["near"]).mean() > 0.85, ran.output


def test_it_forecasts_from_a_first_measurement(data: Path, start: Start) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for k in range(60):
        level, old = rng.normal(3000, 500), rng.random() < 0.5
        for week in (k % 3, 10, 20, 30):
            value = round(level - week * (20 if old else 5) + rng.normal(0, 5))
            rows.append((f"P{k}", week, value, "old" if old else "young"))
    known = pd.DataFrame(rows, columns=["Patient", "Week", "Volume", "Kind"])
    train, held = known[:160], known[160:]
    train.to_csv(data / "train.csv", index=False)
    held.drop_duplicates("Patient").to_csv(data / "test.csv", index=False)
    sample = pd.DataFrame(
        {"Patient_Week": held["Patient"] + "_" + held["Week"].astype(str), "Volume": 0, "Confidence": 1}
    )
    sample.to_csv(data / "sample_submission.csv", index=False)
    ran = start("baseline", data)
    found = pd.read_csv(ran.submission)
    assert np.abs(found["Volume"].to_numpy() - held["Volume"].to_numpy()).mean() < 20, ran.output
    assert found["Confidence"].between(1, 100).all(), ran.output


def test_it_learns_from_arrays(data: Path, start: Start) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(150, 6)).astype(np.float32)
    labels = np.where(values[:, 0] > 0, "7", "3")
    (folder := data / "arrays").mkdir()
    np.save(folder / "train_6.npy", values[:100])
    np.save(folder / "train_label_6.npy", labels[:100])
    np.save(folder / "test_6.npy", values[100:])
    pd.DataFrame({"Id": range(50), "ClassId": 0}).to_csv(data / "sampleSubmission.csv", index=False)
    ran = start("baseline", data)
    assert (pd.read_csv(ran.submission, dtype=str)["ClassId"] == labels[100:]).mean() > 0.8, ran.output


def test_it_uses_the_recorded_positions_of_tracks(data: Path, start: Start) -> None:
    rng, radius = np.random.default_rng(0), 6_378_137.0  # on the equator, which is a circle
    for kind, trips in (("train", "ab"), ("test", "c")):
        for trip in trips:
            (folder := data / kind / trip / "phone").mkdir(parents=True)
            longitude = np.linspace(10, 10.002, 40) + (rng.random(40) < 0.1)
            times, angle = np.arange(40) * 1000, np.radians(longitude)
            made = {"utcTimeMillis": times, "WlsPositionXEcefMeters": radius * np.cos(angle)}
            made |= {"WlsPositionYEcefMeters": radius * np.sin(angle), "WlsPositionZEcefMeters": 0 * angle}
            pd.DataFrame(made).to_csv(folder / "device.csv", index=False)
            true = pd.DataFrame({"UnixTimeMillis": times, "LatitudeDegrees": 0.0})
            true["LongitudeDegrees"] = np.linspace(10, 10.002, 40)
            if kind == "train":
                true.to_csv(folder / "truth.csv", index=False)
    sample = true.assign(LongitudeDegrees=0.0)
    sample.insert(0, "tripId", "c-phone")
    sample.to_csv(data / "sample_submission.csv", index=False)
    ran = start("baseline", data)
    found = pd.read_csv(ran.submission)
    assert np.abs(found["LongitudeDegrees"] - true["LongitudeDegrees"]).max() < 3e-4, ran.output
    assert np.abs(found["LatitudeDegrees"]).max() < 1e-6, ran.output


def test_it_finds_the_direction_of_events(data: Path, start: Start) -> None:
    rng = np.random.default_rng(0)
    where = pd.DataFrame(rng.uniform(-1, 1, (300, 3)).round(3), columns=["x", "y", "z"])
    where.rename_axis("sensor_id").to_csv(data / "sensors.csv")
    truth = pd.DataFrame({"event_id": range(150), "azimuth": rng.uniform(0, 6.28, 150), "zenith": 1.5})
    came = np.column_stack([np.cos(truth["azimuth"]), np.sin(truth["azimuth"]), np.zeros(150)])
    for kind, events in (("train", range(110)), ("test", range(110, 150))):
        seen = []
        for event in events:
            hit = rng.choice(300, 30, replace=False)
            times = (1000 - 500 * where.to_numpy()[hit] @ came[event]).astype(int)
            seen.append(pd.DataFrame({"event_id": event, "sensor_id": hit, "time": times, "charge": 1.0}))
        (data / kind).mkdir()
        pd.concat(seen).set_index("event_id").to_parquet(data / kind / "batch_1.parquet")
    truth[:110].to_parquet(data / "train_meta.parquet")
    truth[110:].assign(azimuth=1, zenith=1).to_csv(data / "sample_submission.csv", index=False)
    ran = start("baseline", data)
    found = pd.read_csv(ran.submission)
    off = found["azimuth"].to_numpy() - truth["azimuth"][110:].to_numpy()
    assert np.cos(off).mean() > 0.9, ran.output


def test_it_reads_text_files_that_list_the_classes_of_recordings(data: Path, start: Start) -> None:
    rng = np.random.default_rng(0)
    values = rng.random((90, 5)).round(3)
    heard = [[k for k in range(4) if row[k] > 0.6] for row in values]
    labels = [",".join(map(str, [n, *own])) if n < 60 else f"{n},?" for n, own in enumerate(heard)]
    (data / "labels.txt").write_text("\n".join(["recording,[labels]", *labels]))
    (data / "numbers.txt").write_text("\n".join(f"{n},{','.join(map(str, row))}" for n, row in enumerate(values)))
    ids = [100 * n + k for n in range(60, 90) for k in range(4)]
    pd.DataFrame({"Id": ids, "Probability": 0}).to_csv(data / "sample_submission.csv", index=False)
    ran = start("baseline", data)
    found = pd.read_csv(ran.submission)
    true = np.array([k in heard[n] for n in range(60, 90) for k in range(4)])
    assert list(found["Id"]) == ids
    assert found["Probability"][true].median() > found["Probability"][~true].quantile(0.9), ran.output


def test_it_orders_the_shuffled_parts_of_documents_by_their_words(data: Path, start: Start) -> None:
    rng = np.random.default_rng(0)
    orders = {}
    for n in range(40):
        (folder := data / ("train" if n < 30 else "test")).mkdir(exist_ok=True)
        words = [f"w{k}" for k in rng.permutation(60)[:6]]
        code, notes = ({f"{kind}{n}x{k}": f"{word} = load" for k, word in enumerate(words)} for kind in "cn")
        shuffled = [list(notes)[k] for k in rng.permutation(6)]
        source = code | {part: f"about {notes[part].split()[0]}" for part in shuffled}
        kinds = dict.fromkeys(code, "code") | dict.fromkeys(shuffled, "note")
        (folder / f"doc{n}.json").write_text(json.dumps({"kind": kinds, "source": source}))
        orders[f"doc{n}"] = " ".join(part for pair in zip(notes, code, strict=True) for part in pair)
    table = pd.DataFrame(orders.items(), columns=["id", "order"])
    table[:30].to_csv(data / "train_orders.csv", index=False)
    sample = table[30:].assign(order=[" ".join(sorted(own.split())) for own in table["order"][30:]])
    sample.to_csv(data / "sample_submission.csv", index=False)
    ran = start("baseline", data)
    found = pd.read_csv(ran.submission)["order"].str.split()
    apart = [
        abs(2 * own.index(part) - 2 * true.index(part)) / len(true)
        for own, true in zip(found, table["order"][30:].str.split(), strict=True)
        for part in true
    ]
    assert all(sorted(own) == sorted(true.split()) for own, true in zip(found, table["order"][30:], strict=True))
    assert np.mean(apart) < 0.25, ran.output


def test_it_inserts_the_missing_word_of_a_sentence(data: Path, start: Start) -> None:
    rng = np.random.default_rng(0)
    follows = {f"word{k}": [f"word{(5 * k + j) % 50}" for j in (1, 2)] for k in range(50)}
    sentences = []
    for _ in range(5200):
        words = [f"word{rng.integers(50)}"]
        while len(words) < 9:
            words.append(follows[words[-1]][int(rng.random() < 0.1)])
        sentences.append(words)
    (data / "train.txt").write_text("\n".join(map(" ".join, sentences[:5100])))
    lacking = [" ".join([*words[:4], *words[5:]]) for words in sentences[5100:]]
    pd.DataFrame({"id": range(100), "sentence": lacking}).to_csv(data / "test.txt", index=False)
    ran = start("baseline", data)
    found = pd.read_csv(ran.submission)["sentence"]
    assert (found == [" ".join(words) for words in sentences[5100:]]).mean() > 0.5, ran.output


@pytest.mark.parametrize("is_filtered", [True, False])
def test_any_python_unpacks_a_tar_archive_only_into_its_folder(
    is_filtered: bool, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_filtered:  # as before Python 3.11.4, which agents' containers may have
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    elif not hasattr(tarfile, "data_filter"):
        pytest.skip("this Python has no archive filters")
    with tarfile.open(data / "train.tar", "w") as archive:
        for name in ("train/0.txt", *([] if is_filtered else ["../elsewhere.txt"])):
            (member := tarfile.TarInfo(name)).size = 2
            archive.addfile(member, io.BytesIO(b"hi"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = runpy.run_path(str(Path(__file__).parents[2] / "agents/baseline/archives.py"))["unpacked"](
        data / "train.tar"
    )
    assert [path.read_bytes() for path in folder.rglob("*.txt")] == [b"hi"]
    assert not list(tmp_path.glob("elsewhere.txt"))
