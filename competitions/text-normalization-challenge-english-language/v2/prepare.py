from functools import partial

from pytest_mlebench.data.authoring.text_normalization import prepare_text_normalization

prepare = partial(prepare_text_normalization, language="en", as_written=True)
