"""Angles and distances between directions and places."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

EARTH_RADIUS = 6_371_000.0
"""Mean radius of the earth in metres, rounded as is usual for a sphere."""


def angular_error(true: ArrayLike, predicted: ArrayLike) -> NDArray[np.float64]:
    """The angle in radians between two directions, for each row.

    ``true`` and ``predicted`` have shape (rows, 2): azimuth and zenith in radians, which may be out of the usual
    range and then mean what their sines and cosines give. Shape (rows,), range [0, π]; some 1e-8 is left of an error
    of 0, as the cosine is flat there. Source: the spherical law of cosines.

    >>> angular_error([[0, np.pi / 2]], [[np.pi, np.pi / 2]]).round(4)
    array([3.1416])
    """
    azimuth, zenith = np.asarray(true, dtype=np.float64).T
    other_azimuth, other_zenith = np.asarray(predicted, dtype=np.float64).T
    cosine = np.cos(azimuth - other_azimuth)
    cosine *= np.sin(zenith) * np.sin(other_zenith)
    cosine += np.cos(zenith) * np.cos(other_zenith)
    error: NDArray[np.float64] = np.arccos(np.clip(cosine, -1, 1, out=cosine), out=cosine)
    return error


def haversine_distance(true: ArrayLike, predicted: ArrayLike, *, radius: float = EARTH_RADIUS) -> NDArray[np.float64]:
    """The distance along a great circle of a sphere, in the unit of ``radius``, for each row.

    ``true`` and ``predicted`` have shape (rows, 2): latitude and longitude in degrees. Shape (rows,), range
    [0, π · radius]; NaN where a value is missing or infinite.
    Source: Sinnott, Virtues of the haversine, Sky and Telescope 68, 1984.

    >>> haversine_distance([[0, 0], [50, 8]], [[0, 90], [50, 8]], radius=2 / np.pi)
    array([1., 0.])
    """
    with np.errstate(invalid="ignore"):
        latitude, longitude = np.radians(np.asarray(true, dtype=np.float64)).T
        other_latitude, other_longitude = np.radians(np.asarray(predicted, dtype=np.float64)).T
        haversine = np.sin((other_latitude - latitude) / 2) ** 2 + (
            np.cos(other_latitude) * np.cos(latitude) * np.sin((other_longitude - longitude) / 2) ** 2
        )
        distance: NDArray[np.float64] = 2 * radius * np.arcsin(np.sqrt(np.clip(haversine, 0, 1)))
        return distance
