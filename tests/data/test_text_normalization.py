import io
from pathlib import Path

import pandas as pd
import pytest

from pytest_mlebench.authoring.archives import write_zip, zip_member
from pytest_mlebench.authoring.text_normalization import prepare_text_normalization

SENTENCES = 20


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """Twenty sentences, numbered 0, 3, 6 …, of two tokens each."""
    folders = {name: tmp_path / name for name in ("raw", "public", "private")}
    for folder in folders.values():
        folder.mkdir()
    rows = [f'{3 * k},{token},"PLAIN","w{k}","W{k}"' for k in range(SENTENCES) for token in range(2)]
    table = '"sentence_id","token_id","class","before","after"\n' + "\n".join(rows) + "\n"
    write_zip(folders["raw"] / "xx_train.csv.zip", {"xx_train.csv": table})
    prepare_text_normalization(folders["raw"], folders["public"], folders["private"], language="xx")
    return folders


def zipped(folder: Path, name: str) -> str:
    with zip_member(folder / f"{name}.zip", name) as file:
        return file.read().decode()


def test_a_tenth_of_the_sentences_is_held_out_whole(folders: dict[str, Path]) -> None:
    train = pd.read_csv(io.StringIO(zipped(folders["public"], "xx_train.csv")))
    test = pd.read_csv(io.StringIO(zipped(folders["public"], "xx_test_2.csv")))
    assert (len(train), len(test)) == (2 * 18, 2 * 2)
    assert not set(train["before"]) & set(test["before"])
    assert list(test.columns) == ["sentence_id", "token_id", "before"]


def test_sentences_are_renumbered_on_both_sides(folders: dict[str, Path]) -> None:
    for name, sentences in (("xx_train.csv", 18), ("xx_test_2.csv", 2)):
        table = pd.read_csv(io.StringIO(zipped(folders["public"], name)))
        assert table["sentence_id"].tolist() == [k for k in range(sentences) for _ in range(2)]
        assert table["token_id"].tolist() == [0, 1] * sentences


def test_answers_and_sample_have_the_tokens_ids(folders: dict[str, Path]) -> None:
    answers, sample = ((folders["private"] / f"{name}.csv").read_text() for name in ("answers", "sample_submission"))
    assert answers.splitlines()[:2] == ['"id","after"', '"0_0","W1"']
    assert sample.splitlines()[:2] == ['"id","after"', '"0_0","w1"']
    assert zipped(folders["public"], "xx_sample_submission_2.csv") == sample


def test_nothing_else_is_public(folders: dict[str, Path]) -> None:
    names = sorted(path.name for path in folders["public"].iterdir())
    assert names == ["xx_sample_submission_2.csv.zip", "xx_test_2.csv.zip", "xx_train.csv.zip"]
