"""The command, as `python -m forecaster`."""

import os
import signal
import sys
import threading
from io import TextIOWrapper
from types import FrameType, TracebackType


def main() -> None:
    """Run the command; nothing that goes wrong shows a traceback without `--debug`."""
    interruptible = signal.getsignal(signal.SIGINT) in {signal.default_int_handler, signal.SIG_DFL}
    if interruptible:  # an interrupt while modules load ends the process at once
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if "--debug" not in sys.argv:
        sys.excepthook = _print_briefly
        threading.excepthook = lambda failure: _print_briefly(
            failure.exc_type, failure.exc_value, failure.exc_traceback
        )
    for stream in (sys.stdout, sys.stderr):  # of a terminal that knows ASCII alone, say
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    from forecaster.cli.app import main as run  # noqa: PLC0415 (after the handlers are set)

    if interruptible:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        run()
    finally:
        if interruptible:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; end at once while a module loads, whose compiled code may abort."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        frame = frame.f_back
    raise KeyboardInterrupt


def _print_briefly(
    kind: type[BaseException], error: BaseException | None, _: TracebackType | None
) -> None:
    """Print an error that nobody has caught in one line."""
    sys.stderr.write(f"forecaster: {kind.__name__}: {error}; --debug shows more\n")


if __name__ == "__main__":
    main()
