"""Helpers for the ``twin.py`` files of competitions, by kind of data.

A twin is synthetic, learnable raw data for a competition's unmodified ``prepare.py`` and ``grade.py``. Its
``make(raw, rng, size)`` draws a hidden world, writes training and test data from it, and returns predictions of known
quality by id. A seed must yield the same bytes with any version of Python and the libraries. So numbers are rounded
before they are written, and the bytes of images and sounds depend only on their content.
"""
