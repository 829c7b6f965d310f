"""Pods that wait for a node, and for how much of that time some node fitted them.

The open pods are looked at in regular intervals. A pod counts from a few seconds after it was first seen, as
every scheduler takes a moment.
"""

from tidelock.shadow.open_pods import OpenPod, OpenPods
from tidelock.shadow.results import WaitingExample, WaitingResults
from tidelock.shadow.statistics import Sample, quantile
from tidelock.shadow.world import ShadowWorld

PATIENCE = 10.0
"""Seconds after which an unbound pod counts as waiting."""

# Kinds of waiting pods that are evaluated at each look. Others are counted, and not evaluated.
_MOST_KINDS = 256
_WAITS = 1000
_EXAMPLES = 20


class Waiting:
    """Adds up the time for which pods wait."""

    def __init__(self, world: ShadowWorld, open_pods: OpenPods, seed: int) -> None:
        self._world = world
        self._open = open_pods
        self._opened = self._unexamined = self._ended = self._ended_fitting = 0
        self._waited = self._fitted = 0.0
        self._waits = Sample[float](_WAITS, seed)
        self._fits = Sample[float](_WAITS, seed)
        self._examples = Sample[WaitingExample](_EXAMPLES, seed)

    def opened(self) -> None:
        """Count a pod that was seen for the first time."""
        self._opened += 1

    def look(self, now: float, seconds: float) -> tuple[int, int]:
        """Add the seconds since the last look to the pods that wait, and to those for which a node fits.

        Return the number of both.
        """
        waiting = fitting = 0
        self._unexamined += max(self._open.kind_count - _MOST_KINDS, 0)
        for pods in self._open.kinds(_MOST_KINDS):
            late = [each for each in pods if each.since + PATIENCE <= now]
            if not late:
                continue
            fits = self._world.fitting(late[0].pod, now)
            anywhere = fits is not None and bool(fits.any())
            waiting += len(late)
            fitting += len(late) if anywhere else 0
            for each in late:
                lasted = min(seconds, now - each.since - PATIENCE)
                each.waited += lasted
                each.fitted += lasted if anywhere else 0.0
        return waiting, fitting

    def ended(self, pod: OpenPod, now: float) -> None:
        """Count a pod that waits no more, as it is bound or gone."""
        if not pod.waited:
            return
        self._ended += 1
        self._waited += pod.waited
        self._waits.add(now - pod.since)
        if pod.fitted:
            self._ended_fitting += 1
            self._fitted += pod.fitted
            self._fits.add(pod.fitted)
            self._examples.add(
                WaitingExample(
                    at=now,
                    pod=str(pod.pod.key),
                    scheduler=pod.pod.spec.scheduler_name,
                    waited=now - pod.since,
                    fitted=pod.fitted,
                )
            )

    def results(self) -> WaitingResults:
        """Return the sums so far, including the pods that still wait."""
        still = [each for each in self._open if each.waited]
        fitting = [each for each in still if each.fitted]
        fits = [*self._fits.values, *(each.fitted for each in fitting)]
        return WaitingResults(
            pods=self._opened,
            waited=self._ended + len(still),
            waited_though_fitting=self._ended_fitting + len(fitting),
            still_waiting=len(still),
            pod_seconds=self._waited + sum(each.waited for each in still),
            pod_seconds_fitting=self._fitted + sum(each.fitted for each in fitting),
            wait_p50=quantile(self._waits.values, 0.5),
            wait_p99=quantile(self._waits.values, 0.99),
            fitting_p50=quantile(fits, 0.5),
            fitting_p99=quantile(fits, 0.99),
            unexamined=self._unexamined,
            examples=sorted(self._examples.values, key=lambda each: -each.fitted),
        )
