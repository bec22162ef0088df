"""Graders: submissions that the first version's grader judges wrongly."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pytest_mlebench.data.dataset import Dataset
from tests.v2.probes import NO_SCORE, REFUSED, answers, graded, perfect


@graded("kuzushiji-recognition", was=None, now=REFUSED)
def more_predictions_than_a_page_may_have(dataset: Dataset) -> pd.DataFrame:
    many = perfect(dataset)
    many.loc[0, "labels"] = " ".join(["U+306F 1 1"] * 1201)
    return many


@graded("smartphone-decimeter-2022", was=None, now=0.0)
def rows_in_another_order(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).sample(frac=1, random_state=0)


@graded("hubmap-kidney-segmentation", was=None, now=REFUSED)
def an_odd_count_of_numbers(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(predicted="1 2 3")


@graded("hubmap-kidney-segmentation", was=None, now=REFUSED)
def runs_beyond_the_last_pixel(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(predicted="1 2 5 1000000")


@graded("nomad2018-predict-transparent-conductors", was=None, now=0.0)
@graded("stanford-covid-vaccine", was=None, now=0.0)
def rows_backwards(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset)[::-1]


@graded("new-york-city-taxi-fare-prediction", was=0.0, now=REFUSED)
def keys_of_no_ride(dataset: Dataset) -> pd.DataFrame:
    rides = perfect(dataset).sort_values("key", kind="stable")
    return rides.assign(key=[f"ride {k:06d}" for k in range(len(rides))])


@graded("google-quest-challenge", was=1.0, now=REFUSED)
def ids_of_no_question(dataset: Dataset) -> pd.DataFrame:
    return _answers_of_quest(dataset).assign(qa_id=range(10**6, 10**6 + len(answers(dataset))))


@graded("google-quest-challenge", was=1.0, now=REFUSED)
def values_above_one(dataset: Dataset) -> pd.DataFrame:
    pairs = _answers_of_quest(dataset)
    return pairs.assign(**{column: pairs[column] + 1 for column in pairs.columns if column != "qa_id"})


@graded("google-quest-challenge", was=NO_SCORE, now=None)
def a_constant_column(dataset: Dataset) -> pd.DataFrame:
    return _answers_of_quest(dataset).assign(question_conversational=0.5)


def _answers_of_quest(dataset: Dataset) -> pd.DataFrame:
    """The answers in the order of their ids, in which the first version compares."""
    return answers(dataset).sort_values("qa_id")


@graded("osic-pulmonary-fibrosis-progression", was=None, now=REFUSED)
def a_single_week(dataset: Dataset) -> pd.DataFrame:
    visits = answers(dataset).dropna(subset="FVC").sort_values("Weeks").groupby("Patient").tail(1)
    return visits[["Patient_Week", "FVC", "Confidence"]].head(1)


@graded("predict-volcanic-eruptions-ingv-oe", was=None, now=REFUSED)
@graded("champs-scalar-coupling", was=None, now=REFUSED)
def an_id_twice(dataset: Dataset) -> pd.DataFrame:
    rows = _off_by_one(perfect(dataset))
    return pd.concat([rows, rows.tail(1)])


@graded("champs-scalar-coupling", was=float("-inf"), now=None)
def one_type_without_error(dataset: Dataset) -> pd.DataFrame:
    rows = perfect(dataset)
    is_other = rows["type"] != rows["type"].iloc[0]
    return _off_by_one(rows).where(is_other, rows)


def _off_by_one(rows: pd.DataFrame) -> pd.DataFrame:
    target = "time_to_eruption" if "time_to_eruption" in rows else "scalar_coupling_constant"
    return rows.assign(**{target: rows[target] + 1})


@graded("learning-agency-lab-automated-essay-scoring-2", was=None, now=REFUSED)
def a_score_of_seven(dataset: Dataset) -> pd.DataFrame:
    return _first(perfect(dataset), "score", 7)


@graded("us-patent-phrase-to-phrase-matching", was=NO_SCORE, now=REFUSED)
def the_same_score_everywhere(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(score=0.5)


@graded("nfl-player-contact-detection", was=None, now=REFUSED)
def a_contact_of_two(dataset: Dataset) -> pd.DataFrame:
    return _first(perfect(dataset), "contact", 2)


@graded("tweet-sentiment-extraction", was=REFUSED, now=1.0)
@graded("chaii-hindi-and-tamil-question-answering", was=REFUSED, now=None)
@graded("imet-2020-fgvc7", was=REFUSED, now=None)
def the_answers_or_numbers_alone(dataset: Dataset) -> pd.DataFrame:
    rows = pd.read_csv(dataset.perfect_submission, dtype=str, keep_default_na=False)
    if "selected_text" in rows:
        return rows
    return rows.assign(**{rows.columns[-1]: "7"})


@graded("rsna-breast-cancer-detection", was=REFUSED, now=0.0)
def negative_values_alone(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(cancer=-1.0)


@graded("rsna-breast-cancer-detection", was=0.0, now=REFUSED)
def a_missing_prediction(dataset: Dataset) -> pd.DataFrame:
    return _first(perfect(dataset).astype({"cancer": float}), "cancer", np.nan)


@graded("bms-molecular-translation", was=None, now=None)
def empty_predictions(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(InChI="")


@graded("herbarium-2020-fgvc7", was=1.0, now=REFUSED)
def classes_and_a_half(dataset: Dataset) -> pd.DataFrame:
    rows = perfect(dataset)
    return rows.assign(Predicted=rows["Predicted"] + 0.5)


@graded("imet-2020-fgvc7", was=1.0, now=None)
def attributes_that_no_image_has(dataset: Dataset) -> pd.DataFrame:
    rows = perfect(dataset)
    return rows.assign(attribute_ids=rows["attribute_ids"].fillna("").astype(str) + " 999998 999999")


@graded("google-research-identify-contrails-reduce-global-warming", was=None, now=REFUSED)
def pixels_beyond_the_image(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(encoded_pixels="1 1000000")


@graded("tgs-salt-identification-challenge", was=None, now=None)
def no_salt_anywhere(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(rle_mask="")


@graded("tgs-salt-identification-challenge", was=None, now=REFUSED)
def salt_beyond_the_image(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(rle_mask="1 1000000")


@graded("hms-harmful-brain-activity-classification", was=None, now=REFUSED)
def an_empty_vote(dataset: Dataset) -> pd.DataFrame:
    rows = pd.read_csv(dataset.perfect_submission)
    sure = rows.index[rows.iloc[:, 1:].eq(0).any(axis=1)][0]
    column = next(name for name in rows.columns[1:] if rows.loc[sure, name] == 0)
    rows.loc[sure, column] = np.nan
    return rows


@graded("ranzcr-clip-catheter-line-classification", was=1.0, now=REFUSED)
def nine_labels_of_eleven(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).drop(columns=["CVC - Normal", "Swan Ganz Catheter Present"])


def _first(rows: pd.DataFrame, column: str, value: float) -> pd.DataFrame:
    """With another value in the first row."""
    return rows.assign(**{column: [value, *rows[column].iloc[1:]]})


@graded("vesuvius-challenge-ink-detection", was=REFUSED, now=0.0)
def no_ink(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset)[["Id", "Predicted"]].assign(Predicted="")


@graded("vesuvius-challenge-ink-detection", was=None, now=REFUSED)
def ink_beyond_the_image(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset)[["Id", "Predicted"]].assign(Predicted="1 1000000")
