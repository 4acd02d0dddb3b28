"""A program as small as can be, to find out whether this Triton can interpret any at all."""

import triton
import triton.language as tl


@triton.jit
def count(total, end):
    for _ in range(tl.load(end)):
        tl.store(total, tl.load(total) + 1)
