from functools import partial

from .v1 import prepare as first

prepare = partial(first.prepare, keep_default_na=False)
