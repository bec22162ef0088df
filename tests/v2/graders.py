"""Graders: submissions that the first version's grader scores incorrectly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.data.dataset import Dataset
from tests.v2.probes import NO_SCORE, REFUSED, answers, graded, perfect


@graded("kuzushiji-recognition/2", was=None, now=REFUSED)
def more_predictions_than_a_page_may_have(dataset: Dataset) -> pd.DataFrame:
    many = perfect(dataset)
    many.loc[0, "labels"] = " ".join(["U+306F 1 1"] * 1201)
    return many


@graded("smartphone-decimeter-2022/2", was=None, now=0.0)
def rows_in_another_order(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).sample(frac=1, random_state=0)


@graded("hubmap-kidney-segmentation/2", was=None, now=REFUSED)
@graded("google-research-identify-contrails-reduce-global-warming/1", was=None, now=REFUSED)
@graded("tgs-salt-identification-challenge/2", was=None, now=REFUSED)
@graded("vesuvius-challenge-ink-detection/2", was=None, now=REFUSED)
def an_odd_count_of_numbers(dataset: Dataset) -> pd.DataFrame:
    id, mask = pd.read_csv(dataset.sample_submission).columns[:2]
    return perfect(dataset)[[id]].assign(**{mask: "1 2 3"})


@graded("smartphone-decimeter-2022/3", was=NO_SCORE, now=REFUSED)
def a_position_that_is_missing(dataset: Dataset) -> pd.DataFrame:
    return _first(perfect(dataset), "LatitudeDegrees", np.nan)


@graded("smartphone-decimeter-2022/3", was=None, now=REFUSED)
def a_position_that_is_infinite(dataset: Dataset) -> pd.DataFrame:
    return _first(perfect(dataset), "LatitudeDegrees", np.inf)


@graded("hubmap-kidney-segmentation/2", was=None, now=REFUSED)
def runs_beyond_the_last_pixel(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(predicted="1 2 5 1000000")


@graded("nomad2018-predict-transparent-conductors/1", was=None, now=0.0)
@graded("stanford-covid-vaccine/1", was=None, now=0.0)
def rows_backwards(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset)[::-1]


@graded("new-york-city-taxi-fare-prediction/1", was=0.0, now=REFUSED)
def keys_of_no_ride(dataset: Dataset) -> pd.DataFrame:
    rides = perfect(dataset).sort_values("key", kind="stable")
    return rides.assign(key=[f"ride {k:06d}" for k in range(len(rides))])


@graded("google-quest-challenge/2", was=1.0, now=REFUSED)
def ids_of_no_question(dataset: Dataset) -> pd.DataFrame:
    return _answers_of_quest(dataset).assign(qa_id=range(10**6, 10**6 + len(answers(dataset))))


@graded("google-quest-challenge/3", was=1.0, now=REFUSED)
def values_above_one(dataset: Dataset) -> pd.DataFrame:
    pairs = _answers_of_quest(dataset)
    return pairs.assign(**{column: pairs[column] + 1 for column in pairs.columns if column != "qa_id"})


@graded("google-quest-challenge/4", was=NO_SCORE, now=None)
def a_constant_column(dataset: Dataset) -> pd.DataFrame:
    return _answers_of_quest(dataset).assign(question_conversational=0.5)


def _answers_of_quest(dataset: Dataset) -> pd.DataFrame:
    """The answers in the order of their ids, as the first version compares them."""
    return answers(dataset).sort_values("qa_id")


@graded("osic-pulmonary-fibrosis-progression/1", was=None, now=REFUSED)
def a_single_week(dataset: Dataset) -> pd.DataFrame:
    visits = answers(dataset).dropna(subset="FVC").sort_values("Weeks").groupby("Patient").tail(1)
    return visits[["Patient_Week", "FVC", "Confidence"]].head(1)


@graded("predict-volcanic-eruptions-ingv-oe/1", was=None, now=REFUSED)
@graded("champs-scalar-coupling/3", was=None, now=REFUSED)
def an_id_twice(dataset: Dataset) -> pd.DataFrame:
    rows = _off_by_one(perfect(dataset))
    return pd.concat([rows, rows.tail(1)])


@graded("champs-scalar-coupling/2", was=float("-inf"), now=None)
def one_type_without_error(dataset: Dataset) -> pd.DataFrame:
    rows = perfect(dataset)
    is_other = rows["type"] != rows["type"].iloc[0]
    return _off_by_one(rows).where(is_other, rows)


def _off_by_one(rows: pd.DataFrame) -> pd.DataFrame:
    target = "time_to_eruption" if "time_to_eruption" in rows else "scalar_coupling_constant"
    return rows.assign(**{target: rows[target] + 1})


@graded("learning-agency-lab-automated-essay-scoring-2/1", was=None, now=REFUSED)
def a_score_of_seven(dataset: Dataset) -> pd.DataFrame:
    return _first(perfect(dataset), "score", 7)


@graded("us-patent-phrase-to-phrase-matching/1", was=NO_SCORE, now=REFUSED)
def the_same_score_everywhere(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(score=0.5)


@graded("nfl-player-contact-detection/2", was=None, now=REFUSED)
def a_contact_of_two(dataset: Dataset) -> pd.DataFrame:
    return _first(perfect(dataset), "contact", 2)


@graded("tweet-sentiment-extraction/1,2", was=REFUSED, now=1.0)
@graded("chaii-hindi-and-tamil-question-answering/1", was=REFUSED, now=None)
@graded("imet-2020-fgvc7/1", was=REFUSED, now=None)
@graded("plant-pathology-2021-fgvc8/4", was=REFUSED, now=0.0)
def the_answers_or_numbers_alone(dataset: Dataset) -> pd.DataFrame:
    rows = pd.read_csv(dataset.perfect_submission, dtype=str, keep_default_na=False)
    if "selected_text" in rows:
        return rows
    number = rows["attribute_ids"].iloc[0].split()[0] if "attribute_ids" in rows else "7"
    return rows.assign(**{rows.columns[-1]: number})


@graded("rsna-breast-cancer-detection/2", was=REFUSED, now=0.0)
def negative_values_alone(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(cancer=-1.0)


@graded("rsna-breast-cancer-detection/1", was=0.0, now=REFUSED)
def a_missing_prediction(dataset: Dataset) -> pd.DataFrame:
    return _first(perfect(dataset).astype({"cancer": float}), "cancer", np.nan)


@graded("bms-molecular-translation/1", was=None, now=None)
def empty_predictions(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(InChI="")


@graded("herbarium-2020-fgvc7/1", was=1.0, now=REFUSED)
@graded("herbarium-2021-fgvc8/1", was=1.0, now=REFUSED)
@graded("herbarium-2022-fgvc9/1", was=1.0, now=REFUSED)
@graded("iwildcam-2019-fgvc6/2", was=1.0, now=REFUSED)
def classes_and_a_half(dataset: Dataset) -> pd.DataFrame:
    rows = perfect(dataset)
    column = rows.columns[-1]
    return rows.assign(**{column: rows[column] + 0.5})


@graded("imet-2020-fgvc7/2", was=1.0, now=None)
def attributes_that_no_image_has(dataset: Dataset) -> pd.DataFrame:
    known = set(pd.read_csv(dataset.public / "labels.csv", dtype=str)["attribute_id"])
    seen = set(" ".join(perfect(dataset)["attribute_ids"].astype(str)).split())
    return _with_labels(dataset, "attribute_ids", min(known - seen))


@graded("google-research-identify-contrails-reduce-global-warming/1", was=None, now=REFUSED)
def pixels_beyond_the_image(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(encoded_pixels="1 1000000")


@graded("tgs-salt-identification-challenge/1", was=None, now=None)
def no_salt_anywhere(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(rle_mask="")


@graded("tgs-salt-identification-challenge/2", was=None, now=REFUSED)
def salt_beyond_the_image(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(rle_mask="1 1000000")


@graded("hms-harmful-brain-activity-classification/3", was=None, now=REFUSED)
def an_empty_vote(dataset: Dataset) -> pd.DataFrame:
    rows = pd.read_csv(dataset.perfect_submission)
    sure = rows.index[rows.iloc[:, 1:].eq(0).any(axis=1)][0]
    column = next(name for name in rows.columns[1:] if rows.loc[sure, name] == 0)
    rows.loc[sure, column] = np.nan
    return rows


@graded("ranzcr-clip-catheter-line-classification/1", was=1.0, now=REFUSED)
def nine_labels_of_eleven(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).drop(columns=["CVC - Normal", "Swan Ganz Catheter Present"])


def _first(rows: pd.DataFrame, column: str, value: float) -> pd.DataFrame:
    """A copy with another value in the first row."""
    return rows.assign(**{column: [value, *rows[column].iloc[1:]]})


@graded("vesuvius-challenge-ink-detection/1", was=REFUSED, now=0.0)
def no_ink(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset)[["Id", "Predicted"]].assign(Predicted="")


@graded("vesuvius-challenge-ink-detection/2", was=None, now=REFUSED)
def ink_beyond_the_image(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset)[["Id", "Predicted"]].assign(Predicted="1 1000000")


@graded("imet-2020-fgvc7/3", was=1.0, now=REFUSED)
def attributes_that_nobody_has_heard_of(dataset: Dataset) -> pd.DataFrame:
    return _with_labels(dataset, "attribute_ids", "999999")


@graded("plant-pathology-2021-fgvc8/2", was=1.0, now=None)
def diseases_that_nobody_has_heard_of(dataset: Dataset) -> pd.DataFrame:
    return _with_labels(dataset, "labels", "mosaic")


@graded("plant-pathology-2021-fgvc8/1", was=None, now=None)
def scab_everywhere(dataset: Dataset) -> pd.DataFrame:
    """The mean F1 of the images is not the F1 of all images together."""
    return perfect(dataset).assign(labels="scab")


def _with_labels(dataset: Dataset, column: str, more: str) -> pd.DataFrame:
    rows = perfect(dataset)
    return rows.assign(**{column: rows[column].fillna("").astype(str) + f" {more}"})


@graded("3d-object-detection-for-autonomous-vehicles/3", was=1.0, now=None)
def boxes_of_classes_that_are_not_there(dataset: Dataset) -> pd.DataFrame:
    rows = perfect(dataset)
    return rows.assign(PredictionString=rows["PredictionString"] + " 0.9 0 0 0 1 1 1 0 unicorn")


@graded("3d-object-detection-for-autonomous-vehicles/2", was=1.0, now=None)
def many_false_alarms_of_low_confidence(dataset: Dataset) -> pd.DataFrame:
    rows = perfect(dataset)
    far = [" ".join(["0.1", "0", "0", "0", "1", "1", "1", "0", boxes.split()[8]]) for boxes in rows["PredictionString"]]
    return rows.assign(PredictionString=rows["PredictionString"] + " " + far)


@graded("billion-word-imputation/1", was=REFUSED, now=None)
def a_sentence_that_reads_as_missing(dataset: Dataset) -> pd.DataFrame:
    rows = perfect(dataset)
    return rows.assign(sentence=["null", *rows["sentence"][1:]])


@graded("facebook-recruiting-iii-keyword-extraction/2", was=1.0, now=None)
def tags_that_no_question_has(dataset: Dataset) -> pd.DataFrame:
    rows = pd.read_csv(dataset.perfect_submission, dtype=str, keep_default_na=False)[["Id", "Tags"]]
    return rows.assign(Tags=rows["Tags"] + " nobody-uses-this another_one")


@graded("facebook-recruiting-iii-keyword-extraction/1", was=None, now=0.5)
def the_half_of_the_questions_with_most_tags(dataset: Dataset) -> pd.DataFrame:
    rows = pd.read_csv(dataset.perfect_submission, dtype=str, keep_default_na=False)[["Id", "Tags"]]
    rank = rows["Tags"].str.count(" ").rank(method="first", ascending=False)
    return rows.assign(Tags=rows["Tags"].where(rank <= len(rows) / 2, ""))


@graded("h-and-m-personalized-fashion-recommendations/1", was=0.0, now=None)
def article_ids_of_ten_digits(dataset: Dataset) -> pd.DataFrame:
    rows = pd.read_csv(dataset.perfect_submission, dtype=str)
    lists = rows["prediction"].str.split()
    return rows.assign(prediction=[" ".join(article.zfill(10) for article in articles) for articles in lists])


@graded("h-and-m-personalized-fashion-recommendations/3", was=None, now=REFUSED)
def a_customer_twice(dataset: Dataset) -> pd.DataFrame:
    rows = pd.read_csv(dataset.perfect_submission, dtype=str)
    return pd.concat([rows.head(1), rows])


@graded("h-and-m-personalized-fashion-recommendations/4", was=0.0, now=None)
@graded("hotel-id-2021-fgvc8/3", was=0.0, now=None)
def one_guess_in_each_row_but_the_first(dataset: Dataset) -> pd.DataFrame:
    rows = pd.read_csv(dataset.perfect_submission, dtype=str)
    column = "prediction" if "prediction" in rows else "hotel_id"
    guesses = rows[column].str.split().str[0]
    return rows.assign(**{column: ["", *guesses[1:]]})


@graded("inaturalist-2019-fgvc6/3", was=REFUSED, now=0.0)
def categories_as_floats(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).astype({"predicted": float})


@graded("jigsaw-toxic-comment-classification-challenge/3", was=None, now=1.0)
def classes_in_another_order(dataset: Dataset) -> pd.DataFrame:
    rows = perfect(dataset)
    return rows[["id", *rows.columns[:0:-1]]]


@graded("jigsaw-unintended-bias-in-toxicity-classification/1", was=0.5, now=1.0)
def the_right_order_below_one_half(dataset: Dataset) -> pd.DataFrame:
    return _toxicity(dataset, lambda toxicity: toxicity * 0.49)


@graded("jigsaw-unintended-bias-in-toxicity-classification/3", was=REFUSED, now=0.0)
def the_opposite_of_the_truth(dataset: Dataset) -> pd.DataFrame:
    return _toxicity(dataset, lambda toxicity: toxicity < 0.5)


@graded("jigsaw-unintended-bias-in-toxicity-classification/2", was=1.0, now=REFUSED)
def nothing_where_it_is_not_toxic(dataset: Dataset) -> pd.DataFrame:
    return _toxicity(dataset, lambda toxicity: toxicity.where(toxicity >= 0.5))


def _toxicity(dataset: Dataset, change: Callable[[pd.Series[float]], pd.Series[Any]]) -> pd.DataFrame:
    rows = perfect(dataset)
    return rows[["id"]].assign(prediction=change(rows["toxicity"]).astype(float))


@graded("siim-covid19-detection/1", was=None, now=0.0)
@graded("tensorflow2-question-answering/1", was=None, now=0.0)
def nothing_at_all(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(PredictionString=" ")


@graded("siim-covid19-detection/2", was=None, now=None)
def the_first_opacity_twice(dataset: Dataset) -> pd.DataFrame:
    """The second time it is near another opacity that was not found."""
    rows = perfect(dataset)
    first_boxes = rows["PredictionString"].str.split().str[:6].str.join(" ")
    is_opacity = rows["PredictionString"].str.startswith("opacity")
    twice = first_boxes + " " + first_boxes
    return rows.assign(PredictionString=rows["PredictionString"].where(~is_opacity, twice))


@graded("siim-covid19-detection/3", was=None, now=REFUSED)
def a_corner_that_is_not_a_number(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(PredictionString="opacity 0.5 nan 0 1 1")


@graded("vinbigdata-chest-xray-abnormalities-detection/2", was=None, now=1.0)
def all_findings(dataset: Dataset) -> pd.DataFrame:
    """A perfect submission."""
    return perfect(dataset)


@graded("vinbigdata-chest-xray-abnormalities-detection/1", was=None, now=0.0)
def boxes_of_half_the_width(dataset: Dataset) -> pd.DataFrame:
    """They overlap by less than 0.4, except in the version that takes corners for sizes."""
    rows = perfect(dataset)
    return rows.assign(PredictionString=[_narrow(text) for text in rows["PredictionString"]])


@graded("vinbigdata-chest-xray-abnormalities-detection/5", was=None, now=REFUSED)
def an_image_twice(dataset: Dataset) -> pd.DataFrame:
    return pd.concat([perfect(dataset).head(1).assign(PredictionString="14 0 0 0 1 1"), perfect(dataset)])


@graded("vinbigdata-chest-xray-abnormalities-detection/5", was=None, now=REFUSED)
def a_fraction_of_a_class(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(PredictionString="0.5 0.9 0 0 1 1")


@graded("vinbigdata-chest-xray-abnormalities-detection/5", was=None, now=REFUSED)
def corners_the_wrong_way_round(dataset: Dataset) -> pd.DataFrame:
    return perfect(dataset).assign(PredictionString="0 0.9 5 5 1 1")


def _narrow(text: str) -> str:
    boxes = np.array(text.split(), dtype=float).reshape(-1, 6)
    boxes[:, 4] = boxes[:, 2] + 0.3 * (boxes[:, 4] - boxes[:, 2])
    return " ".join(" ".join([f"{box[0]:.0f}", *map(str, box[1:])]) for box in boxes)


@graded("text-normalization-challenge-english-language/1", was=1.0, now=None)
@graded("text-normalization-challenge-russian-language/1", was=1.0, now=None)
def one_word_for_all_that_pandas_misses(dataset: Dataset) -> pd.DataFrame:
    rows = pd.read_csv(dataset.perfect_submission, dtype=str, keep_default_na=False)
    missed = ["null", "NaN", "NULL", "None", "nan", ""]
    return rows.assign(after=rows["after"].where(~rows["after"].isin(missed), "N/A"))


@graded("text-normalization-challenge-russian-language/3", was=None, now=0.0)
def another_spelling_of_true(dataset: Dataset) -> pd.DataFrame:
    """Some tokens have the spoken form True, none TRUE."""
    return perfect(dataset).assign(after="TRUE")


@graded("uw-madison-gi-tract-image-segmentation/1", was=None, now=1.0)
def rows_sorted_by_organ(dataset: Dataset) -> pd.DataFrame:
    """The masks are the same in each version; the first pairs them by position."""
    return answers(dataset).sort_values("class", kind="stable")[["id", "class", "predicted"]]


@graded("uw-madison-gi-tract-image-segmentation/1", was=1.0, now=REFUSED)
def ids_that_are_none(dataset: Dataset) -> pd.DataFrame:
    """Each organ's rows have the name of another organ, which the first version ignores."""
    rows = answers(dataset)[["id", "class", "predicted"]]
    return rows.assign(**{"class": "stomach"})


@graded("uw-madison-gi-tract-image-segmentation/2", was=None, now=None)
def bowels_the_wrong_way_round(dataset: Dataset) -> pd.DataFrame:
    """All organs together have the true shape, so the first version's distance is 0."""
    rows = answers(dataset)[["id", "class", "predicted"]]
    other = {"large_bowel": "small_bowel", "small_bowel": "large_bowel", "stomach": "stomach"}
    exchanged = rows.assign(**{"class": rows["class"].map(other)})
    return rows[["id", "class"]].merge(exchanged, on=["id", "class"])


@graded("uw-madison-gi-tract-image-segmentation/3", was=None, now=REFUSED)
def pixels_beyond_the_slice(dataset: Dataset) -> pd.DataFrame:
    return answers(dataset)[["id", "class"]].assign(predicted="1 1000000")


@graded("uw-madison-gi-tract-image-segmentation/3", was=None, now=REFUSED)
def three_numbers(dataset: Dataset) -> pd.DataFrame:
    return answers(dataset)[["id", "class"]].assign(predicted="1 3 10")


@graded("tensorflow-speech-recognition-challenge/2", was=None, now=REFUSED)
def a_thirteenth_label(dataset: Dataset) -> pd.DataFrame:
    return answers(dataset).assign(label="marvin")
