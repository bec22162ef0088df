"""The version of the package.

>>> len(__version__.split("."))
3
"""

__version__ = "0.2.0"
