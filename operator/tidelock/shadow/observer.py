"""Follows a cluster by its watch events, and keeps all figures. It does no I/O, and its clock is a parameter.

A pod is compared when the watch shows its binding, right before the cache counts it. So the profile decides
over the cluster that the scheduler saw, apart from events that came meanwhile.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from tidelock.clock import Clock
from tidelock.cluster.lister import Named
from tidelock.framework.config import Configuration
from tidelock.load.source import UseReading
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import Resources
from tidelock.scheduler.informers.informers import OTHERS
from tidelock.shadow.decisions import Decisions
from tidelock.shadow.evenness import Evenness, lasted_name
from tidelock.shadow.gaps import Gaps
from tidelock.shadow.holds import Holds
from tidelock.shadow.open_pods import OpenPod, OpenPods, is_open, is_refused
from tidelock.shadow.races import Races
from tidelock.shadow.replayed import ReplayedWorld
from tidelock.shadow.results import (
    RunResults,
    ShadowOptions,
    ShadowResults,
    TimelineResults,
)
from tidelock.shadow.statistics import Timeline
from tidelock.shadow.waiting import Waiting
from tidelock.shadow.world import ShadowWorld


class Observer:
    """Takes events and looks, and returns the results at any time.

    Attributes:
        pods, nodes: event handlers of these resources.
        others: event handlers of the resources that only plugins read, by their field of Objects.
        live: returns whether the watches deliver present events, and not a list after a gap.
        begun: when the whole cluster was known for the first time, or 0 before.

    """

    def __init__(self, configuration: Configuration, clock: Clock, options: ShadowOptions) -> None:
        self._clock = clock
        self._options = options
        self._world = ShadowWorld(configuration, clock)
        self._replayed = ReplayedWorld(configuration, clock)
        self._open = OpenPods(self._world)
        self._decisions = Decisions(options.seed)
        self._races = Races(self._world, self._open, options.seed)
        self._waiting = Waiting(self._world, self._open, options.seed)
        self._holds = Holds(self._world.cache, options.leads)
        self._evenness = Evenness(self._world, self._replayed)
        self._gaps = Gaps()
        self._timeline = Timeline(0.0)
        self._looked = self._watched = self._busy = 0.0
        self.failures = 0
        self.begun = 0.0
        self.live: Callable[[], bool] = lambda: True
        self.pods = PodHandler(self)
        self.nodes = NodeHandler(self)
        worlds = self._world.handlers, self._replayed.world.handlers
        self.others = {
            name: BothHandlers(self.begin, *(each.others[name] for each in worlds)) for name in OTHERS
        }

    @property
    def node_names(self) -> Collection[str]:
        """Names of the nodes."""
        return self._world.cache.columns.row_of

    def capacity_of(self, node_name: str) -> Resources | None:
        """Return the amounts that are 100 percent of a node, or None if there is no such node."""
        columns = self._world.cache.columns
        row = columns.row_of.get(node_name)
        return None if row is None else columns.nodes[row].capacity

    def begin(self) -> None:
        """Begin once all resources are listed. Everything so far is the state before the run."""
        if self.begun or not self._world.handlers.ready:
            return
        now = self._clock.now()
        self.begun = self._looked = now
        self._timeline = Timeline(now)
        self._holds.begin(now)
        for each in self._open:
            each.since = now
            self._opened(each, now)

    def look(self, lost_since: float | None = None, reason: str = "") -> None:
        """Look at everything that lasts: waiting pods, levels and capacity. Call it in regular intervals.

        `lost_since` is when the last response came if a watch is lost now, with the reason for that.
        """
        if not self.begun:
            return
        started, now = self._clock.monotonic(), self._clock.now()
        seconds, looked = now - self._looked, self._looked
        self._looked = now
        self._world.cache.nominator.ended.take()  # no queue of this process waits for them
        if not self._gaps.look(now, looked, lost_since, reason):
            if self._gaps.open is None:
                self._holds.begin(now)
            return
        self._watched += seconds
        middle = now - seconds / 2  # of the time that this look stands for
        waiting, fitting = self._waiting.look(now, seconds)
        self._timeline.add(middle, "waiting", waiting * seconds)
        self._timeline.add(middle, "waiting though fitting", fitting * seconds)
        self._holds.look(now, seconds)
        self._replayed.retry(now)
        for name, deviation in self._evenness.look(now, seconds):
            self._timeline.add(middle, name, deviation * seconds)
            self._timeline.add(middle, lasted_name(name), seconds)
        self._timeline.add(middle, "seconds", seconds)
        self._busy += self._clock.monotonic() - started

    def measured(self, reading: UseReading, settling: float = 0.0) -> None:
        """Take a reading of measured use, by which plugins decide from now on.

        `settling` is the age in seconds from which the readings of a pod are correct.
        """
        self._evenness.take(reading, self._clock.now(), settling)

    def not_measured(self, problem: str) -> None:
        """Note that a reading failed."""
        self._evenness.failed(problem)

    # ------------------------------------------------------------------------------------------ events

    def pod_changed(self, pod: Pod) -> None:
        """Process a pod's newest version."""
        started, now = self._clock.monotonic(), self._clock.now()
        self._holds.at(now)
        arrives = bool(pod.node_name) and not pod.leaving and self._world.cache.get(pod.uid) is None
        known = self._open.get(pod.uid)
        if not (arrives and self.begun):
            self._follow(pod)
        elif not self.live():
            self._decisions.missed += 1
            self._follow(pod)
        elif known is None:
            self._decisions.created_bound += 1
            self._follow(pod)
        else:
            self._bound(known, pod, now)
        self._update_open(pod, now)
        self._busy += self._clock.monotonic() - started

    def pod_gone(self, pod: Pod) -> None:
        """Forget a pod."""
        now = self._clock.now()
        self._holds.at(now)
        self._world.handlers.pods.remove(pod)
        self._replayed.forget(pod)
        self._close(pod, now)

    def node_changed(self, node: Node) -> None:
        """Process a node's newest version."""
        self._evenness.put_node(node)
        if self.begun:
            self._holds.changed(node.name, self._clock.now())

    def node_gone(self, node: Node) -> None:
        """Forget a node."""
        self._evenness.drop_node(node)
        if self.begun:
            self._holds.changed(node.name, self._clock.now())

    def synced(self, resource: str) -> None:
        """Note that a resource has been listed."""
        for world in (self._world, self._replayed.world):
            world.handlers.listed(resource)
        self.begin()

    def _bound(self, known: OpenPod, pod: Pod, now: float) -> None:
        """Process a binding: compare it, see which pods lose by it, and replay it."""
        if pod.of_daemon_set:
            self._decisions.of_daemon_sets += 1
            self._follow(pod)
            return
        comparison = self._world.compare(known.pod, pod.node_name, now)
        self._decisions.compared(pod, pod.node_name, comparison, now)
        self._timeline.add(now, comparison.outcome)
        self._holds.arrived(pod, pod.node_name, now)
        contenders = self._races.contenders(pod, pod.node_name, now)
        self._world.handlers.pods.upsert(None, pod)
        losers, between = self._races.bound(known, pod.node_name, contenders, now)
        if losers:
            self._timeline.add(now, "races between managers" if between else "races within a manager")
        self._replayed.decide(pod, now)

    def _follow(self, pod: Pod) -> None:
        self._world.handlers.pods.upsert(None, pod)
        if is_open(pod):
            self._world.cache.nominator.upsert(pod)
        else:
            self._replayed.follow(pod)

    def _update_open(self, pod: Pod, now: float) -> None:
        if not is_open(pod):
            self._close(pod, now)
            return
        before = self._open.get(pod.uid)
        known = self._open.put(pod, now)
        if not self.begun:
            return
        if before is None:
            self._opened(known, now)
        else:
            self._note_refusal(known, now)

    def _opened(self, pod: OpenPod, now: float) -> None:
        self._waiting.opened()
        self._note_refusal(pod, now)

    def _note_refusal(self, pod: OpenPod, now: float) -> None:
        if pod.refused or not is_refused(pod.pod):
            return
        pod.refused = True
        fits = self._world.fitting(pod.pod, now)
        self._decisions.refused(fits=fits is not None and bool(fits.any()))

    def _close(self, pod: Pod, now: float) -> None:
        known = self._open.remove(pod.uid)
        if known is not None and self.begun:
            self._waiting.ended(known, now)

    # ----------------------------------------------------------------------------------------- results

    def results(
        self,
        *,
        server: str = "",
        version: str = "",
        unread: Sequence[str] = (),
        resident_bytes: int = 0,
        finished: bool = True,
    ) -> ShadowResults:
        """Return all figures so far. Nothing changes by that.

        The arguments are the parts of the run's results that only the process knows.
        """
        gap = self._gaps.open
        run = RunResults(
            begun=self.begun,
            ended=self._clock.now(),
            watched_seconds=self._watched,
            gap_seconds=self._gaps.seconds + (gap.ended - gap.begun if gap else 0.0),
            gap_count=self._gaps.count + (gap is not None),
            gaps=[*self._gaps.first, *([gap] if gap else [])],
            server=server,
            version=version,
            unread=list(unread),
            nodes=len(self._world.cache.columns),
            pods=len(self._world.cache),
            failures=self.failures,
            busy_seconds=self._busy,
            resident_bytes=resident_bytes,
            finished=finished,
            options=self._options,
        )
        return ShadowResults(
            run=run,
            decisions=self._decisions.results(self._replayed.counts()),
            races=self._races.results(),
            waiting=self._waiting.results(),
            levels=self._evenness.results(),
            holds=self._holds.results(),
            timeline=TimelineResults(width=self._timeline.width, series=self._timeline.series()),
        )


class PodHandler:
    """The event handler of pods."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def upsert(self, old: Pod | None, new: Pod) -> None:
        """Process a pod's newest version."""
        del old
        self._observer.pod_changed(new)

    def remove(self, last: Pod) -> None:
        """Forget a pod."""
        self._observer.pod_gone(last)

    def synced(self) -> None:
        """Note that all pods are known."""
        self._observer.synced("pods")


class NodeHandler:
    """The event handler of nodes."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def upsert(self, old: Node | None, new: Node) -> None:
        """Process a node's newest version."""
        del old
        self._observer.node_changed(new)

    def remove(self, last: Node) -> None:
        """Forget a node."""
        self._observer.node_gone(last)

    def synced(self) -> None:
        """Note that all nodes are known."""
        self._observer.synced("nodes")


class BothHandlers:
    """The event handler of a resource that only plugins read, for both worlds."""

    def __init__(self, on_synced: Callable[[], None], *handlers: Any) -> None:
        self._on_synced = on_synced
        self._handlers = handlers

    def upsert(self, old: Named | None, new: Named) -> None:
        """Process an object's newest version."""
        for each in self._handlers:
            each.upsert(old, new)

    def remove(self, last: Named) -> None:
        """Forget an object."""
        for each in self._handlers:
            each.remove(last)

    def synced(self) -> None:
        """Note that all objects of the resource are known."""
        for each in self._handlers:
            each.synced()
        self._on_synced()
