from functools import partial

from .v1 import prepare as first

prepare = partial(first.prepare, days=7, dtype={**first.DTYPE, "article_id": str})
