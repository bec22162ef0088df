from functools import partial

from .v1 import prepare as first

prepare = partial(first.prepare, secret=["giver_username_if_known"])
