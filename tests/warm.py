"""Imported once by the process that tests fork others from: what is slow to load.

Nothing here may start a thread or wake a GPU, which a forked process could not use: hence no
`backward`, which does both.
"""

import numpy as np
import torch

from forecaster.kernels import cpu
from forecaster.kernels.pattern import BlockPattern
from forecaster.training import loop  # noqa: F401

torch.set_num_threads(1)
for dtype in (torch.float32, torch.float64):  # compiled code is loaded when it is first called
    pattern = BlockPattern.from_pairs(2, np.array([(0, 1)]))
    weight, state = torch.ones(4, 3, 5, dtype=dtype), torch.ones(2, 5, 7, dtype=dtype)
    cpu.weight_gradient(cpu.forward(weight, state, pattern, None, True), state, pattern)
