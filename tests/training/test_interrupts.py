import signal
from threading import Thread

import pytest

from forecaster.training.interrupts import SIGNALS, interrupts


@pytest.mark.parametrize("number", SIGNALS)
def test_T2_the_first_signal_is_only_remembered(number: signal.Signals) -> None:
    with interrupts() as signals:
        assert signals.received is None
        signal.raise_signal(number)
        assert signals.received == number.name


def test_T2_the_second_signal_reaches_the_previous_handler() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background: ignored
    try:
        with interrupts() as signals:
            signal.raise_signal(signal.SIGTERM)
            assert signals.received == "SIGTERM"
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_T2_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with interrupts():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_T2_a_thread_installs_no_handlers() -> None:
    before, seen = [signal.getsignal(number) for number in SIGNALS], []

    def work() -> None:
        with interrupts() as signals:
            seen.extend([signal.getsignal(number) for number in SIGNALS])
            seen.append(signals.received)

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [*before, None]
