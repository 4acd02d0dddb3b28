"""The validation windows on which a simple model chooses among a few settings."""

import numpy as np
from jaxtyping import Int64

MAX_WINDOWS = 1_000  # evenly spaced
MAX_VALUES = 2**23  # forecast per setting; long horizons and many locations take fewer windows
MIN_WINDOWS = 50


def choosing_origins(
    origins: Int64[np.ndarray, " V"], window_values: int
) -> Int64[np.ndarray, " v"]:
    """Evenly spaced origins, few enough to try every setting on them.

    Args:
        origins: of the validation windows.
        window_values: the number of values that a window forecasts: steps times locations.
    """
    most = min(MAX_WINDOWS, max(MAX_VALUES // window_values, MIN_WINDOWS))
    return origins[:: -(-len(origins) // most)]
