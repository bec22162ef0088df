from functools import partial

from .v1 import prepare as first

prepare = partial(first.prepare, as_named=True)
