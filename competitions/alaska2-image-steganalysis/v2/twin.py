from functools import partial

from .. import twin as first
from .prepare import keyed

make = partial(first.make, generator=keyed)
