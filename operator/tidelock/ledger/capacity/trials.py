"""Trials: changes of the counted capacity that last as long as a context."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tidelock.cluster.columns import Columns
from tidelock.cluster.index.reserved_devices import ReservedDevices
from tidelock.cluster.reserve_pods import ReservePods
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reserved_devices import ReservedDevice
from tidelock.model.nodes import Node


def count_reserve_pod(reserve_pods: ReservePods, entry: ReservationInfo) -> None:
    """Count the reserve pod of a reservation on its node for as long as the owner is awaited there."""
    pod = entry.reserve_pod
    if pod is not None:
        reserve_pods.put(pod, entry.node)
    else:
        reserve_pods.discard(entry.uid)


class Trials:
    """Counts waiting reservations as placed, and placed ones as gone."""

    def __init__(
        self, columns: Columns, reserve_pods: ReservePods, reserved_devices: ReservedDevices
    ) -> None:
        self._columns = columns
        self._reserve_pods = reserve_pods
        self._reserved_devices = reserved_devices
        self._tried: list[tuple[ReservationInfo, Node]] = []

    def __bool__(self) -> bool:
        """Return whether a waiting reservation is counted as placed."""
        return bool(self._tried)

    @contextmanager
    def place(self) -> Iterator[Callable[[ReservationInfo, Node, tuple[ReservedDevice, ...]], None]]:
        """Return a function that counts a waiting reservation on a node for as long as the context lasts."""
        freed = self._columns.freed

        def count(entry: ReservationInfo, node: Node, devices: tuple[ReservedDevice, ...]) -> None:
            self._tried.append((entry, node))
            self._columns.reservation(node.name, entry.reservation.requests, 1)
            pod = entry.reservation.pod
            if pod is not None and pod.neighbourly and not entry.ahead:
                self._reserve_pods.put(pod, node.name)
            self._reserved_devices.put(entry.uid, devices)

        try:
            yield count
        finally:
            for entry, node in self._tried:
                self._columns.reservation(node.name, entry.reservation.requests, -1)
                count_reserve_pod(self._reserve_pods, entry)
                self._reserved_devices.put(entry.uid, entry.devices)
            self._tried.clear()
            self._columns.freed = freed  # no capacity has come free

    @contextmanager
    def without_reserve_pods(self, entries: Iterable[ReservationInfo]) -> Iterator[None]:
        """Count the reserve pods of some reservations as gone for as long as the context lasts."""
        aside = [entry for entry in entries if entry.reserve_pod is not None]
        for entry in aside:
            self._reserve_pods.discard(entry.uid)
        try:
            yield
        finally:
            for entry in aside:
                count_reserve_pod(self._reserve_pods, entry)
