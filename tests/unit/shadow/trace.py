"""A small trace of a cluster's events, replayed to an observer on a clock that is set by hand."""

from typing import Any

from builders import NOW, node, pod
from tidelock.framework.config import default_configuration
from tidelock.model.pods import Pod
from tidelock.plugins.registry import BUILTINS
from tidelock.shadow.observer import Observer
from tidelock.shadow.results import ShadowOptions, ShadowResults

STOCK = "default-scheduler"
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


class TraceClock:
    """Seconds since NOW."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return NOW + self.seconds

    def monotonic(self) -> float:
        return self.seconds


class Trace:
    """An observer of a cluster with these nodes, which are given by name and fields."""

    def __init__(self, nodes: dict[str, dict[str, Any]], *, begin: bool = True, **options: Any) -> None:
        self.clock = TraceClock()
        configuration = default_configuration("tidelock-scheduler", BUILTINS)
        self.observer = Observer(configuration, self.clock, ShadowOptions(**options))
        self._pods: dict[str, dict[str, Any]] = {}
        for name, fields in nodes.items():
            self.put_node(name, **fields)
        if begin:
            self.begin()

    def begin(self) -> None:
        """Note that everything is listed."""
        observer = self.observer
        for handler in observer.others.values():
            handler.synced()
        observer.nodes.synced()
        observer.pods.synced()
        assert observer.begun

    def at(self, seconds: float, *, look: bool = True) -> None:
        """Set the time, and look."""
        self.clock.seconds = seconds
        if look:
            self.observer.look()

    def put_node(self, name: str, **fields: Any) -> None:
        labels = {"kubernetes.io/hostname": name, **fields.pop("labels", {})}
        self.observer.nodes.upsert(None, node(name, labels=labels, **fields))

    def drop_node(self, name: str) -> None:
        self.observer.nodes.remove(node(name))

    def create(self, name: str, cpu: str = "1", **fields: Any) -> Pod:
        """Create a pod for the stock scheduler."""
        requests = {"cpu": cpu, **fields.pop("requests", {})}
        self._pods[name] = {"scheduler": STOCK, "requests": requests, **fields}
        return self._send(name)

    def refuse(self, name: str) -> None:
        """Report a pod as unschedulable."""
        self._pods[name]["status"] = {"conditions": [UNSCHEDULABLE]}
        self._send(name)

    def bind(self, name: str, node_name: str) -> None:
        self._pods[name] |= {"node_name": node_name, "status": {}}
        self._send(name)

    def finish(self, name: str) -> None:
        self._pods[name]["phase"] = "Succeeded"
        self._send(name)

    def delete(self, name: str) -> None:
        self.observer.pods.remove(self._send(name, send=False))
        del self._pods[name]

    def _send(self, name: str, *, send: bool = True) -> Pod:
        made = pod(name, **self._pods[name])
        if send:
            self.observer.pods.upsert(None, made)
        return made

    @property
    def results(self) -> ShadowResults:
        return self.observer.results()
