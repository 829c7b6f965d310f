"""Notifies the ledger of pods that come and go: they use shared reservations, or have a known end."""

from tidelock.cluster.cache import CacheObserver
from tidelock.cluster.placed import Placed
from tidelock.ledger.ledger import Ledger


class OccupancyObserver(CacheObserver):
    """Has shared reservations hold the rest of their capacity in the step in which a pod comes or goes."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def place(self, placed: Placed) -> None:
        """Note a pod that has come, or is another there, as when its binding was seen."""
        self._ledger.holdings.count_pod(placed, there=True)

    def displace(self, placed: Placed) -> None:
        """Note a pod that has left."""
        self._ledger.holdings.count_pod(placed, there=False)
