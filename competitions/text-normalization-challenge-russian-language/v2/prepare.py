from functools import partial

import pandas as pd

from pytest_mlebench.data.authoring.corrections import hold_out_groups
from pytest_mlebench.data.authoring.text_normalization import prepare_text_normalization


def sentences(tokens: pd.DataFrame) -> "pd.Series[int]":
    """A number for each token's sentence, the same where sentences are equal: a sum of hashes of places and tokens."""
    hashes = pd.util.hash_pandas_object(tokens[["token_id", "before"]], index=False)
    return hashes.groupby(tokens["sentence_id"]).transform("sum")


prepare = partial(prepare_text_normalization, language="ru", as_written=True, split=hold_out_groups(sentences))
