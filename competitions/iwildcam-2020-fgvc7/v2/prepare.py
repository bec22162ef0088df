from functools import partial

from .v1 import prepare as first
from .v1.prepare import DETECTIONS as DETECTIONS
from .v1.prepare import TEST as TEST
from .v1.prepare import TRAIN as TRAIN

prepare = partial(first.prepare, corrected=True)
