"""Imported once by the process that tests fork others from: what is slow to load."""

import numpy as np
import torch

from forecaster.kernels.pattern import BlockPattern
from forecaster.kernels.product import block_product
from forecaster.training import loop  # noqa: F401

torch.set_num_threads(1)
for dtype in (torch.float32, torch.float64):  # compiled code is loaded when it is first called
    pattern = BlockPattern.from_pairs(2, np.array([(0, 1)]))
    weight = torch.ones(4, 3, 5, dtype=dtype, requires_grad=True)
    state = torch.ones(2, 5, 7, dtype=dtype, requires_grad=True)
    block_product(weight, state, pattern, relu=True).sum().backward()
