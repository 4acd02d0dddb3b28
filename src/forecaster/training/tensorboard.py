"""TensorBoard, for those who have it: a watcher of training."""

from pathlib import Path
from typing import Any

from forecaster.errors import ConfigError
from forecaster.training.progress import Moment


class TensorBoard:
    """Writes what there is to see as TensorBoard events; close it when training is over."""

    def __init__(self, folder: Path) -> None:
        """Refuse, where it is not installed, before anything is trained."""
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 (few have it)
        except ImportError as error:
            message = "TensorBoard is not installed: pip install tensorboard, or leave it out"
            raise ConfigError(message) from error
        self._make, self._folder = SummaryWriter, folder
        self._writer: Any = None

    def __call__(self, moment: Moment) -> None:
        """Write one moment; steps that a resumed run does again replace the old ones."""
        if self._writer is None:
            self._writer = self._make(str(self._folder), purge_step=moment.step)
        for name in ("loss", "rmse", "mape"):
            value = getattr(moment, name)
            if value is not None:
                self._writer.add_scalar(name, value, moment.step)

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()
