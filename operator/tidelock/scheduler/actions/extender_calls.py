"""Asks extenders about a pod that the decider can't decide without them, off the decision loop."""

from collections.abc import Callable, Mapping

from tidelock.framework.api import Victims
from tidelock.framework.extender import ExtenderAdviceData, ExtenderVictims
from tidelock.kube.client import PODS
from tidelock.model.failures import failure_text
from tidelock.model.pods import Pod
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.extenders import ExtenderError, Extenders
from tidelock.scheduler.actions.tasks import FaultSubject
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.core.outcomes import ExtenderCall


class ExtenderCaller:
    """Brings the extenders' answers to the decider."""

    def __init__(self, context: WriterContext, decider: Decider, extenders: Extenders) -> None:
        self._tasks = context.tasks
        self._isolation = context.isolation
        self._decider = decider
        self._extenders = extenders

    def call(self, call: ExtenderCall, answered: Callable[[], None]) -> None:
        """Ask the extenders about a pod in the background. Call `answered` once the decider has advice."""
        about = FaultSubject("consultation", PODS, call.waiting.pod.meta)
        self._tasks.spawn(self._call(call, answered), about)

    async def _call(self, call: ExtenderCall, answered: Callable[[], None]) -> None:
        with self._isolation.attempt("consultation", PODS, call.waiting.pod.meta) as attempt:
            if call.victims is None:
                advice = await self._extenders.advise(call.waiting.pod, call.nodes)
            else:
                advice = await self._ask_about_victims(call.waiting.pod, call.victims)
        if attempt.error is not None:  # no other pod is decided before the answer
            advice = ExtenderAdviceData(victims={}, error=failure_text(attempt.error))
        self._decider.pod_scheduler.advised(call, advice)
        answered()

    async def _ask_about_victims(self, pod: Pod, candidates: Mapping[str, Victims]) -> ExtenderAdviceData:
        """Ask extenders about victims. They know nothing of nodes with reservations as the only victims.

        Nor are they asked about pods of other nodes, which go because a pod of their PodGroup does.
        """
        cache = self._decider.cache
        asked = {
            name: ExtenderVictims(
                tuple(placed.pod for placed in each.pods if placed.node_name == name), each.violations
            )
            for name, each in candidates.items()
            if each.pods
        }
        try:
            chosen = await self._extenders.preempt(
                pod, asked, lambda node_name: [placed.pod for placed in cache.pods_on(node_name)]
            )
        except ExtenderError as error:
            return ExtenderAdviceData(victims={}, error=str(error))
        victims = {name: each for name, each in candidates.items() if not each.pods}
        for name, left in chosen.items():
            placed = (cache.get(each.uid) for each in left.pods)
            there = tuple(each for each in placed if each is not None and each.node_name == name)
            reservations = candidates[name].reservations if name in candidates else ()
            victims[name] = Victims(there, reservations, left.violations)
        return ExtenderAdviceData(victims=victims)
