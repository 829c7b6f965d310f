"""The scheduling cycle of pods alone, without a decider."""

from tidelock.cluster.cache import Cache
from tidelock.framework.waiting_pods import WaitingPods
from tidelock.ledger.ledger import Ledger
from tidelock.scheduler.core.cycle import SchedulingCycle
from tidelock.scheduler.core.pipeline import FilterPipeline
from tidelock.scheduler.core.preemption import Preemptor


def pod_cycle(cache: Cache, ledger: Ledger) -> SchedulingCycle:
    return SchedulingCycle(cache, FilterPipeline(cache, ledger), Preemptor(cache, ledger), WaitingPods())
