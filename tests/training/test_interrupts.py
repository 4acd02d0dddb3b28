import signal
from threading import Thread

import pytest

from forecaster.training.interrupts import SIGNALS, interrupts


@pytest.mark.parametrize("number", SIGNALS)
def test_T2_the_first_signal_is_noted_and_nothing_else_happens(number: signal.Signals) -> None:
    with interrupts() as noted:
        assert noted.asked is None
        signal.raise_signal(number)
        assert noted.asked == number.name


def test_T2_the_second_signal_reaches_whoever_had_it_before() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background: ignored
    try:
        with interrupts() as noted:
            signal.raise_signal(signal.SIGTERM)
            assert noted.asked == "SIGTERM"
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_T2_handlers_are_given_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with interrupts():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_T2_a_thread_leaves_the_signals_alone() -> None:
    before, seen = [signal.getsignal(number) for number in SIGNALS], []

    def work() -> None:
        with interrupts() as noted:
            seen.extend([signal.getsignal(number) for number in SIGNALS])
            seen.append(noted.asked)

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [*before, None]
