from functools import partial

from .v1 import synthetic as first
from .v1.synthetic import submissions as submissions

make = partial(first.make, games=12)
"""Games with several plays each."""
