"""What the ``twin.py`` files of competitions share, by the kind of data.

A twin is learnable raw data that a competition's own ``prepare.py`` and ``grade.py`` use unchanged. Its
``make(raw, rng, size)`` draws a hidden world, writes train and test data from it, and returns predictions of known
quality by id. Numbers are rounded before they are written, and the bytes of pictures and sounds depend on their content
alone, so that the same seed gives the same bytes on every version of Python and of the libraries.
"""
