"""``python -m tools.core_split`` prints the competitions that are not in the split ``core``, with reasons.

A medal is informative only if the gap between gold and bronze exceeds the random variation between test sets of the
same size. So a competition stays in ``core`` if gold minus bronze is at least one standard error of the gold score.
The result is ``NOT_CORE`` in ``pytest_mlebench/catalog/catalogue.py``; a test checks that they are equal.

The standard error follows from the metric, the gold score and the number of independent test units (patients or
recordings instead of rows if rows depend on each other). It is an estimate, because no submissions are available.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pytest_mlebench.catalog import Competition, default_catalogue

UNITS = {
    "3d-object-detection-for-autonomous-vehicles": 36,  # scenes
    "AI4Code": 20_000,
    "aerial-cactus-identification": 3_325,
    "alaska2-image-steganalysis": 5_000,
    "aptos2019-blindness-detection": 367,
    "billion-word-imputation": 303_010,
    "bms-molecular-translation": 484_838,
    "cassava-leaf-disease-classification": 2_676,
    "cdiscount-image-classification-challenge": 706_990,
    "chaii-hindi-and-tamil-question-answering": 112,
    "champs-scalar-coupling": 8_500,  # molecules
    "denoising-dirty-documents": 29,  # pages
    "detecting-insults-in-social-commentary": 2_647,
    "dog-breed-identification": 1_023,
    "dogs-vs-cats-redux-kernels-edition": 2_500,
    "facebook-recruiting-iii-keyword-extraction": 603_420,
    "freesound-audio-tagging-2019": 3_361,
    "google-quest-challenge": 350,  # questions
    "google-research-identify-contrails-reduce-global-warming": 1_856,
    "h-and-m-personalized-fashion-recommendations": 68_984,
    "herbarium-2020-fgvc7": 32_000,  # species, over which the score is a mean
    "herbarium-2021-fgvc8": 64_500,
    "herbarium-2022-fgvc9": 15_501,
    "histopathologic-cancer-detection": 45_561,
    "hms-harmful-brain-activity-classification": 195,  # patients
    "hotel-id-2021-fgvc8": 9_756,
    "hubmap-kidney-segmentation": 3,
    "icecube-neutrinos-in-deep-ice": 1_000_000,
    "imet-2020-fgvc7": 21_318,
    "inaturalist-2019-fgvc6": 32_331,
    "iwildcam-2019-fgvc6": 14,  # locations
    "iwildcam-2020-fgvc7": 97,
    "jigsaw-toxic-comment-classification-challenge": 31_915,
    "jigsaw-unintended-bias-in-toxicity-classification": 97_320,
    "kuzushiji-recognition": 389,
    "leaf-classification": 99,
    "learning-agency-lab-automated-essay-scoring-2": 1_731,
    "lmsys-chatbot-arena": 5_748,
    "mlsp-2013-birds": 1_216,
    "multi-modal-gesture-recognition": 99,
    "new-york-city-taxi-fare-prediction": 9_914,
    "nfl-player-contact-detection": 24,  # plays
    "nomad2018-predict-transparent-conductors": 240,
    "osic-pulmonary-fibrosis-progression": 18,  # patients
    "petfinder-pawpularity-score": 992,
    "plant-pathology-2020-fgvc7": 183,
    "plant-pathology-2021-fgvc8": 3_727,
    "predict-volcanic-eruptions-ingv-oe": 444,
    "random-acts-of-pizza": 1_162,
    "ranzcr-clip-catheter-line-classification": 3_009,
    "rsna-2022-cervical-spine-fracture-detection": 202,  # scans
    "rsna-breast-cancer-detection": 1_192,  # patients
    "rsna-miccai-brain-tumor-radiogenomic-classification": 59,
    "seti-breakthrough-listen": 6_000,
    "siim-covid19-detection": 1_246,
    "siim-isic-melanoma-classification": 4_142,
    "smartphone-decimeter-2022": 8,  # drives
    "spooky-author-identification": 1_958,
    "stanford-covid-vaccine": 240,  # molecules
    "statoil-iceberg-classifier-challenge": 321,
    "tabular-playground-series-dec-2021": 400_000,
    "tabular-playground-series-may-2022": 100_000,
    "tensorflow-speech-recognition-challenge": 5_000,
    "tensorflow2-question-answering": 30_000,
    "text-normalization-challenge-english-language": 75_000,  # sentences
    "text-normalization-challenge-russian-language": 76_000,
    "tgs-salt-identification-challenge": 1_000,
    "the-icml-2013-whale-challenge-right-whale-redux": 25_149,
    "tweet-sentiment-extraction": 2_748,
    "us-patent-phrase-to-phrase-matching": 3_648,
    "uw-madison-gi-tract-image-segmentation": 27,  # days of scans
    "ventilator-pressure-prediction": 7_545,  # breaths
    "vesuvius-challenge-ink-detection": 1,
    "vinbigdata-chest-xray-abnormalities-detection": 1_500,
    "whale-categorization-playground": 2_610,
}
"""Number of independent units in the test set: rows unless a comment names another unit. Estimated from the rows of
the full data if the number is not known."""
POSITIVES = {
    "aerial-cactus-identification": 2_494,
    "alaska2-image-steganalysis": 2_489,
    "detecting-insults-in-social-commentary": 693,
    "histopathologic-cancer-detection": 18_450,
    "jigsaw-toxic-comment-classification-challenge": 320,
    "jigsaw-unintended-bias-in-toxicity-classification": 300,
    "mlsp-2013-birds": 60,
    "plant-pathology-2020-fgvc7": 27,
    "random-acts-of-pizza": 285,
    "ranzcr-clip-catheter-line-classification": 60,
    "rsna-miccai-brain-tumor-radiogenomic-classification": 31,
    "seti-breakthrough-listen": 600,
    "siim-isic-melanoma-classification": 73,
    "tabular-playground-series-may-2022": 48_600,
    "the-icml-2013-whale-challenge-right-whale-redux": 5_000,
}
"""For metrics based on ROC AUC: number of positive test rows; for several classes, the harmonic mean."""


def of_share(score: float, units: int) -> float:
    """Standard error of a mean of values from 0 to 1: at most that of as many coin flips."""
    return math.sqrt(score * (1 - score) / units)


def of_correlation(score: float, units: int) -> float:
    return (1 - score**2) / math.sqrt(units)


def of_loss(score: float, units: int) -> float:
    """Standard error of a mean of losses, assuming that their standard deviation is about their mean."""
    return score / math.sqrt(units)


def of_root(score: float, units: int) -> float:
    """Standard error of a root mean square of normally distributed errors."""
    return score / math.sqrt(2 * units)


def of_logarithm(_: float, units: int) -> float:
    """Standard error of the logarithm of a mean of losses."""
    return 1 / math.sqrt(units)


def of_area(score: float, units: int, positives: int) -> float:
    """Hanley and McNeil (1982), "The meaning and use of the area under a receiver operating characteristic curve"."""
    negatives = units - positives
    first, second = score / (2 - score) - score**2, 2 * score**2 / (1 + score) - score**2
    return math.sqrt(
        (score * (1 - score) + (positives - 1) * first + (negatives - 1) * second) / (positives * negatives)
    )


_SHARES = (
    *("accuracy", "zero_one_loss", "f1_macro", "f1_micro", "f1_samples", "f1_located_characters", "f0.5", "lwlrap"),
    *("global_dice", "mean_dice", "dice_and_hausdorff_3d", "mean_word_jaccard", "mean_precision_3d"),
    *("mean_average_precision_at_12", "mean_average_precision_at_5", "mean_average_precision_at_iou_0.4"),
    *("mean_average_precision_at_iou_0.5", "mean_average_precision_at_iou_0.5_to_0.95", "probabilistic_f1"),
    "word_error_rate",
)
_CORRELATIONS = (
    *("quadratic_weighted_kappa", "kendall_tau", "matthews_corrcoef", "mean_columnwise_spearman_correlation"),
    "pearson_correlation",
)
_LOSSES = (
    *("log_loss", "weighted_log_loss", "mean_kl_divergence", "mean_absolute_error", "mean_angular_error"),
    *("mean_levenshtein_distance", "mean_of_50th_and_95th_percentile_distance"),
)
_ROOTS = (
    *("root_mean_squared_error", "mean_columnwise_root_mean_squared_error"),
    "mean_columnwise_root_mean_squared_log_error",
)
_LOGARITHMS = ("mean_log_mean_absolute_error", "laplace_log_likelihood")
_ERRORS: dict[str, Callable[[float, int], float]] = {
    **dict.fromkeys(_SHARES, of_share),
    **dict.fromkeys(_CORRELATIONS, of_correlation),
    **dict.fromkeys(_LOSSES, of_loss),
    **dict.fromkeys(_ROOTS, of_root),
    **dict.fromkeys(_LOGARITHMS, of_logarithm),
}


def standard_error(competition: Competition) -> float:
    """Standard error of a score that just earns gold."""
    id, score = competition.id, competition.leaderboard.gold
    if id in POSITIVES:
        return of_area(score, UNITS[id], POSITIVES[id])
    return _ERRORS[competition.metric](score, UNITS[id])


def not_core() -> dict[str, str]:
    """Reasons why competitions are not in ``core``, by id. Contaminated competitions are not included."""
    reasons = {}
    for own in default_catalogue(version="v2").split("all"):
        distance = abs(own.leaderboard.gold - own.leaderboard.bronze)
        if not distance:
            reasons[own.id] = "gold and bronze are the same score"
        elif distance < (error := standard_error(own)):
            reasons[own.id] = f"from bronze to gold: {_digits(distance)}; standard error: {_digits(error)}"
    return reasons


def _digits(number: float) -> str:
    """Format with one significant digit, or two if the first is 1, and no exponent."""
    place = -math.floor(math.log10(number))
    return f"{number:.{max(place + (round(number * 10**place) == 1), 0)}f}"


if __name__ == "__main__":
    for id, reason in not_core().items():
        print(f'    "{id}": "{reason}",')
