from functools import partial

from .v1 import prepare as first
from .v1.prepare import MAP as MAP

prepare = partial(first.prepare, logs_of_each_map=True)
