"""The command's first module: an interrupt ends the process at once while others are loaded.

It stands beside the package, whose own import would come before its first line.
"""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from forecaster.__main__ import main  # after the handler is set

__all__ = ["main"]
