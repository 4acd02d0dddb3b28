"""METAR-style weather codes → rain, snow, fog.

`RA` and `DZ` are rain, `SN`, `SG` and `PL` are snow, `FG` is fog, at any intensity and in any
combination: `+TSRA` is rain, `FZFG` fog, `RASN` both rain and snow. `BR` (mist, visibility over
1 km), hail and unknown precipitation are neither. Codes are ignored for the vicinity (`VC`), the
past hour (`RE`), shallow, patchy or partial fog (`MI`, `BC`, `PR`), and blowing or drifting
(`BL`, `DR`). No code means no rain, snow or fog.
"""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float64

from forecaster.errors import Faults, count_of, name_some

FLAGS = ("rain", "snow", "fog")

_CODES_OF = {"rain": {"RA", "DZ"}, "snow": {"SN", "SG", "PL"}, "fog": {"FG"}}
_NOT_HERE = {"VC", "RE", "MI", "BC", "PR", "BL", "DR"}
_OTHER = set(re.findall(r"\w\w", "TS SH FZ BR HZ FU VA DU SA PY PO SQ FC SS DS GR GS IC UP"))
_KNOWN = set.union(_NOT_HERE, _OTHER, *_CODES_OF.values())
_CODE = re.compile(r"[+-]?(?P<pairs>(?:[A-Z]{2})+)(?::\d+)?")  # NOAA numbers them: RA:61 |FG:2


def decode_flags(column: pa.ChunkedArray, name: str, faults: Faults) -> Float64[np.ndarray, "R 3"]:
    """Return rain, snow and fog by the codes of each row, adding a fault for other texts."""
    encoded = pc.fill_null(column.cast(pa.string()), "").combine_chunks().dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    decoded = [_read_codes(text) for text in texts]
    invalid = [repr(text) for text, pairs in zip(texts, decoded, strict=True) if pairs is None]
    if invalid:
        fault = f"column {name!r}: {count_of(len(invalid), 'text')} without METAR-style codes"
        faults.add(
            f"{fault}: {name_some(invalid)}; valid are e.g. -RA, +TSRA BR, FG, or null for none"
        )
    kinds = [_CODES_OF[flag] for flag in FLAGS]
    flags = [[bool(pairs and pairs & kind) for kind in kinds] for pairs in decoded]
    return np.asarray(np.array(flags, dtype=np.float64)[encoded.indices.to_numpy()])


def _read_codes(text: str) -> set[str] | None:
    """Return the letter pairs of the codes that count, or None if the text has other codes."""
    present: set[str] = set()
    for token in re.split(r"[\s|]+", text.strip(" |")):
        match = _CODE.fullmatch(token)
        pairs = set(re.findall("..", match["pairs"])) if match else {token} - {""}
        if not pairs <= _KNOWN:
            return None
        if not pairs & _NOT_HERE:
            present |= pairs
    return present
