"""Write the golden checkpoints of format 1: python -m tests.training.golden.make_format_1.

Those beside this script were written once and are never written again: `test_C5_…` proves that
later releases still read them.
"""

from pathlib import Path

from forecaster.training.checkpoint import CheckpointStore
from tests.training.test_checkpoint import checkpoint

if __name__ == "__main__":
    store = CheckpointStore(Path(__file__).parent / "format_1", lambda _: None)
    for step in (7, 14):
        store.save(checkpoint(step))
