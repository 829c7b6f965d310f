"""How long to wait after one more failure."""

from random import Random


class Backoff:
    """Delays that double from `shortest` to `longest` seconds, shortened by chance to keep clients apart."""

    def __init__(self, shortest: float, longest: float, rng: Random) -> None:
        self._shortest = shortest
        self._longest = longest
        self._rng = rng
        self._ceiling = shortest

    def next(self) -> float:
        """Return the seconds to wait now: between half of the present ceiling and all of it."""
        delay = self._ceiling * self._rng.uniform(0.5, 1.0)
        self._ceiling = min(2 * self._ceiling, self._longest)
        return delay

    def reset(self) -> None:
        """Begin with the shortest delay again: something went well."""
        self._ceiling = self._shortest
