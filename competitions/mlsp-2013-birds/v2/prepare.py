from functools import partial

from .v1 import prepare as first
from .v1.prepare import ROOT as ROOT

prepare = partial(first.prepare, corrected=True)
