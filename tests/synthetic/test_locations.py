import numpy as np
import pytest

from forecaster.synthetic.locations import LENGTH_KM, NEIGHBOURHOODS, WIDTH_KM, draw_street_grid

SIZES = [1, 2, 7, 20, 199, 996]


@pytest.fixture(params=SIZES)
def places(request):
    return draw_street_grid(request.param, np.random.default_rng(5))


def test_locations_lie_on_the_strip_and_are_told_apart(places):
    locations = places.to_locations()
    assert len(set(locations.names)) == len(locations) == len(places.along)
    assert np.abs(places.across).max() < WIDTH_KM / 2
    assert np.abs(places.along).max() < LENGTH_KM / 2


def test_coordinates_keep_distances(places):
    locations = places.to_locations()
    north, east = np.deg2rad(locations.lat) * 6_371.0, np.deg2rad(locations.lon) * 6_371.0
    east *= np.cos(np.deg2rad(locations.lat.mean()))
    apart = np.hypot(north[:, None] - north, east[:, None] - east)
    assert np.allclose(apart, places.distances, rtol=2e-3, atol=1e-6)


def test_the_strip_lies_in_new_york(places):
    locations = places.to_locations()
    assert (np.abs(locations.lat - 40.785) < 0.1).all()
    assert (np.abs(locations.lon + 73.965) < 0.1).all()


def test_no_two_locations_are_nearer_than_half_a_block():
    places = draw_street_grid(996, np.random.default_rng(5))
    apart = places.distances + np.eye(996)
    assert apart.min() > 0.5 * WIDTH_KM / 13  # 13 avenues, 77 streets


def test_a_big_city_has_every_neighbourhood():
    places = draw_street_grid(199, np.random.default_rng(5))
    assert set(places.neighbourhoods) == set(range(len(NEIGHBOURHOODS)))
    assert (np.diff(places.streets) >= 0).all()  # from south to north
