"""Objects that can't be read in full: their number, and an event on each unusable one."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidelock.kube.client import ApiResource
from tidelock.kube.events import EventType, ObjectReference
from tidelock.kube.watch import Reflector
from tidelock.model.meta import ObjectMeta

_CONSEQUENCES = {True: "unusable", False: "part_ignored"}


class UnreadableObjectCounts(Collector):
    """Counts the objects with faults at each scrape."""

    def __init__(self, reflectors: Iterable[Reflector[Any]]) -> None:
        """Take the live copies."""
        self._reflectors = tuple(reflectors)

    def describe(self) -> list[Metric]:
        """Return nothing, so registering needs no state."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Count by resource and consequence. A listed resource that can be read in full has zeros."""
        family = GaugeMetricFamily(
            "tidelock_unreadable_objects",
            "Objects with an unreadable part, by resource and consequence: unusable if decisions need "
            "that part, part_ignored otherwise.",
            labels=("resource", "consequence"),
        )
        found: dict[str, Counter[bool]] = {}
        for reflector in self._reflectors:
            if reflector.synced.is_set():
                needed = (any(fault.needed for fault in faults) for faults in reflector.faulty.values())
                found.setdefault(reflector.resource.plural, Counter()).update(needed)
        for plural, counts in found.items():
            for needed_part, consequence in _CONSEQUENCES.items():
                family.add_metric((plural, consequence), counts[needed_part])
        yield family


class UnreadableObjectReporter:
    """Records events on objects that can't be used."""

    def __init__(self, record: Callable[[ObjectReference, EventType, str, str, str], None]) -> None:
        """Take a function that records an event."""
        self._record = record

    def noted(self, resource: ApiResource, meta: ObjectMeta) -> None:
        """Record an event on an object with changed faults, if it can't be used."""
        if meta.unreadable:
            regarding = ObjectReference(
                resource.api_version, resource.kind, meta.name, meta.namespace, meta.uid
            )
            note = f"Not used for decisions, as parts of it can't be read: {meta.unreadable}"
            self._record(regarding, "Warning", "Unreadable", "Reading", note)
