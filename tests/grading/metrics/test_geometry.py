import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from pytest_mlebench.authoring.metrics.detection import EARTH_RADIUS, angular_error, haversine_distance

DIRECTIONS = arrays(np.float64, (7, 2), elements=st.floats(-10, 10))
LATITUDES = arrays(np.float64, 7, elements=st.floats(-90, 90))
LONGITUDES = arrays(np.float64, 7, elements=st.floats(-180, 180))


def vectors(directions: np.ndarray) -> np.ndarray:
    azimuth, zenith = directions.T
    return np.column_stack([np.cos(azimuth) * np.sin(zenith), np.sin(azimuth) * np.sin(zenith), np.cos(zenith)])


def test_directions_at_right_angles_are_half_pi_apart() -> None:
    north, east, up = [0, np.pi / 2], [np.pi / 2, np.pi / 2], [1.23, 0]
    assert angular_error([north, north, east], [east, up, up]) == pytest.approx([np.pi / 2] * 3)


def test_an_angle_out_of_range_is_wrapped() -> None:
    direction, same = [0.5, 1.0], [0.5 + np.pi, -1.0]
    assert angular_error([direction, direction], [same, [0.5 + 4 * np.pi, 1.0]]) == pytest.approx([0, 0], abs=1e-7)


def test_the_opposite_direction_is_pi_away() -> None:
    assert angular_error([[0.3, 0.4]], [[0.3 + np.pi, np.pi - 0.4]]) == pytest.approx([np.pi])


@given(DIRECTIONS, DIRECTIONS)
def test_the_angular_error_is_the_angle_between_unit_vectors(
    true: NDArray[np.float64], predicted: NDArray[np.float64]
) -> None:
    cosine = np.clip((vectors(true) * vectors(predicted)).sum(axis=1), -1, 1)
    assert np.cos(angular_error(true, predicted)) == pytest.approx(cosine, abs=1e-12)


@given(DIRECTIONS, DIRECTIONS)
def test_the_angular_error_is_symmetric_and_bounded(true: NDArray[np.float64], predicted: NDArray[np.float64]) -> None:
    error = angular_error(true, predicted)
    assert (error >= 0).all() and (error <= np.pi).all()
    assert error == pytest.approx(angular_error(predicted, true), abs=1e-7)


@given(DIRECTIONS)
def test_a_direction_has_zero_angular_error_to_itself(true: NDArray[np.float64]) -> None:
    assert angular_error(true, true) == pytest.approx(np.zeros(7), abs=1e-7)


def test_a_degree_of_latitude_is_111_kilometres() -> None:
    assert haversine_distance([[37, -122]], [[38, -122]]) == pytest.approx([np.pi * EARTH_RADIUS / 180])


def test_a_degree_of_longitude_shrinks_with_the_latitude() -> None:
    at_equator, at_60_degrees = haversine_distance([[0, 10], [60, 10]], [[0, 10.001], [60, 10.001]])
    assert at_60_degrees / at_equator == pytest.approx(0.5, rel=1e-6)


def test_full_turns_of_longitude_make_no_difference() -> None:
    assert haversine_distance([[37, -122]], [[37, -122 + 720]]) == pytest.approx([0], abs=1e-6)


def test_the_antipode_is_half_a_circumference_away() -> None:
    assert haversine_distance([[12, 34], [90, 0]], [[-12, -146], [-90, 77]]) == pytest.approx(
        [np.pi * EARTH_RADIUS] * 2
    )


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_non_finite_position_has_no_distance(value: float) -> None:
    distances = haversine_distance([[37, -122], [37, -122]], [[value, -122.0], [37.0, -122.0]])
    assert np.isnan(distances[0]) and distances[1] == 0


@given(LATITUDES, LONGITUDES, LATITUDES, LONGITUDES)
def test_the_distance_is_the_angle_between_the_positions_times_the_radius(
    latitude: NDArray[np.float64],
    longitude: NDArray[np.float64],
    other: NDArray[np.float64],
    other_longitude: NDArray[np.float64],
) -> None:
    true, predicted = np.column_stack([latitude, longitude]), np.column_stack([other, other_longitude])
    directions = (np.radians(np.column_stack([place[:, 1], 90 - place[:, 0]])) for place in (true, predicted))
    # the angle's arc cosine is inexact for places that are near
    assert haversine_distance(true, predicted, radius=1) == pytest.approx(angular_error(*directions), abs=1e-6)
