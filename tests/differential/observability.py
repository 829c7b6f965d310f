"""One story for pods of kube-scheduler and pods of Tidelock, with the metrics and events of each."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from ssl import SSLContext
from typing import Any
from urllib.request import Request, urlopen

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from cluster.live import Pod
from cluster.world import World
from devcluster import LocalCluster, wait_for
from devcluster.identity import token_kubeconfig
from devcluster.loopback import HOST
from differential.scenario import FINALIZER
from tidelock.kube.client import EVENTS
from tidelock.kube.config import load_connection

Json = dict[str, Any]
Series = frozenset[tuple[str, str]]
"""The labels of a series."""

# Plugins are measured in a tenth of the decisions, so some of this many are.
_MANY = 100
_SMALL = {"size": "small"}
_SCRAPE_SECONDS = 60.0
_SCRAPER = "scraper"
# The fields of events and conditions that are compared. The others are instants and authors.
_EVENT = ("type", "reason", "action", "note")
_CONDITION = ("type", "status", "reason", "message")


class Exporter:
    """The metrics of a scheduler."""

    def __init__(self, url: str, headers: dict[str, str], tls: SSLContext | None) -> None:
        self._request = Request(url, headers=headers)  # noqa: S310 -- loopback
        self._tls = tls

    def scrape(self) -> dict[str, Metric]:
        """Return the families `scheduler_*` by name."""
        with urlopen(self._request, timeout=_SCRAPE_SECONDS, context=self._tls) as answer:  # noqa: S310
            families = list(text_string_to_metric_families(answer.read().decode()))
        return {family.name: family for family in families if family.name.startswith("scheduler_")}


@dataclass
class Side:
    """One scheduler, with the metrics, events and conditions of its pods.

    Attributes:
        families: the families that it exports in the end.
        moved: the series of each family that have changed meanwhile.
        events: the events of each pod, each once.
        conditions: the conditions of each pod while one waited for its victim to leave.

    In events and conditions, a name that only one side has is replaced by a common one.

    """

    name: str
    world: World
    exporter: Exporter
    families: dict[str, Metric] = field(default_factory=dict)
    moved: dict[str, set[Series]] = field(default_factory=dict)
    events: dict[str, list[Json]] = field(default_factory=dict)
    conditions: dict[str, list[Json]] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)

    def pod(self, name: str, cpu: str = "1m", **more: Any) -> Pod:
        """Create a pod of this scheduler."""
        made = self.world.pod(name, cpu, schedulerName=self.name, **more)
        self.pods[name] = made
        return made

    def read_conditions(self) -> None:
        """Store the present conditions of the pods."""
        for name, pod in self.pods.items():
            found = pod.read() or {}
            self.conditions[name] = [
                self._plain({key: each.get(key) for key in _CONDITION})
                for each in found.get("status", {}).get("conditions", ())
            ]

    def read_events(self) -> dict[str, set[str]]:
        """Store all events, and return their reasons by pod."""
        self.events = {name: [] for name in self.pods}
        for event in self.world.api.get(EVENTS.collection(self.world.namespace))["items"]:
            told = self._plain({key: event.get(key) for key in _EVENT})
            known = self.events.setdefault(event["regarding"]["name"], [])
            if told not in known:
                known.append(told)
        return {name: {each["reason"] for each in told} for name, told in self.events.items()}

    def _plain(self, found: Any) -> Any:
        if isinstance(found, dict):
            return {key: self._plain(each) for key, each in found.items() if key != "resourceVersion"}
        if not isinstance(found, str):
            return found
        for name, pod in self.pods.items():
            found = found.replace(pod.uid, f"uid-of-{name}")
        return found.replace(self.world.namespace, "shop").replace(self.name, "the-scheduler")


def exporter_of(cluster: LocalCluster, folder: Path) -> Exporter:
    """Return the metrics of kube-scheduler, with a login like the one of Prometheus."""
    cluster.kubectl("create", "serviceaccount", _SCRAPER)
    cluster.kubectl(
        "create",
        "clusterrolebinding",
        _SCRAPER,
        "--clusterrole=system:monitoring",
        f"--serviceaccount=default:{_SCRAPER}",
    )
    connection = load_connection(token_kubeconfig(cluster, _SCRAPER, "default", folder / "kubeconfig"))
    header = connection.credentials.header()
    assert header is not None
    port = cluster.components["kube-scheduler"].health.port
    return Exporter(f"https://{HOST}:{port}/metrics", {"Authorization": header}, connection.ssl_context())


def replay(sides: Iterable[Side]) -> None:
    """Bind, refuse, gate and preempt pods, on one side after the other."""
    sides = list(sides)
    for side in sides:
        side.world.node("large", cpu="4")
        side.world.node("small", cpu="1", labels=_SMALL)
        side.world.priority_class("urgent", 1000)
    for side in sides:
        _replay(side)


def _replay(side: Side) -> None:
    before = side.exporter.scrape()
    victim = side.pod("victim", "3", metadata={"name": "victim", "finalizers": [FINALIZER]})
    for number in range(_MANY):
        side.pod(f"small-{number}")
    for pod in side.pods.values():
        pod.until_bound()
    side.pod("large", "8").until_refused()
    # Without a selector, the other node may be as good when the gate is removed.
    chosen = {**side.world.selector, **_SMALL}
    gated = side.pod("gated", schedulingGates=[{"name": "example.com/hold"}], nodeSelector=chosen)
    urgent = side.pod("urgent", "3", priorityClassName="urgent")
    victim.until(lambda pod: pod["metadata"].get("deletionTimestamp"), "be evicted")
    urgent.until(lambda pod: pod["status"].get("nominatedNodeName"), "be nominated")
    urgent.until_refused()
    side.read_conditions()
    victim.merge({"metadata": {"finalizers": None}})
    urgent.until_bound()
    # The gate stays until now, because the large node was empty for a while.
    gated.merge({"spec": {"schedulingGates": None}})
    gated.until_bound()
    wait_for(side.read_events, _all_told, what=f"all events of {side.name}", interval=0.5)
    measured = partial(_all_bound, before)
    side.families = wait_for(side.exporter.scrape, measured, what=f"all metrics of {side.name}", interval=0.5)
    side.moved = {name: _moved(family, before.get(name)) for name, family in side.families.items()}


def _all_told(reasons: dict[str, set[str]]) -> bool:
    """Return whether each pod has the event of its outcome, which is another one for `victim` and `large`."""
    wanted = dict.fromkeys(reasons, "Scheduled") | {"victim": "Preempted", "large": "FailedScheduling"}
    return all(wanted[name] in told for name, told in reasons.items())


def _all_bound(then: dict[str, Metric], now: dict[str, Metric]) -> bool:
    """Return whether the metrics count all pods that were bound since then.

    kube-scheduler updates them once a second.
    """
    return _bound(now) - _bound(then) == _MANY + len(("victim", "urgent", "gated"))


def _bound(families: dict[str, Metric]) -> float:
    """Count the pods that have reached the last extension point."""
    family = families.get("scheduler_framework_extension_point_duration_seconds")
    return sum(
        sample.value
        for sample in (family.samples if family else ())
        if sample.name.endswith("_count") and sample.labels["extension_point"] == "PostBind"
    )


def _moved(now: Metric, then: Metric | None) -> set[Series]:
    """Return the labels of the series that have changed, without the labels of profiles and buckets."""
    earlier = {(each.name, *sorted(each.labels.items())): each.value for each in then.samples} if then else {}
    return {
        frozenset((key, value) for key, value in each.labels.items() if key not in {"le", "profile"})
        for each in now.samples
        if earlier.get((each.name, *sorted(each.labels.items())), 0.0) != each.value
    }
