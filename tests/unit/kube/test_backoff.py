from random import Random

from tidelock.kube.backoff import Backoff

SEEDED = Random(3)  # noqa: S311 -- it spreads retries


def test_delays_double_up_to_the_longest_delay() -> None:
    backoff = Backoff(0.1, 10.0, SEEDED)

    delays = [backoff.next() for _ in range(3000)]
    for delay, ceiling in zip(delays, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0], strict=False):
        assert ceiling / 2 <= delay <= ceiling
    assert max(delays) <= 10.0
    assert len(set(delays[10:])) > 2900


def test_a_reset_starts_with_the_shortest_delay_again() -> None:
    backoff = Backoff(0.1, 10.0, SEEDED)
    for _ in range(5):
        backoff.next()

    backoff.reset()
    assert backoff.next() <= 0.1
