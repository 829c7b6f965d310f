"""PrioritySort: higher priority first, then first come, first served."""

from tidelock.framework.api import QueueSort
from tidelock.model.pods import Pod


class PrioritySort(QueueSort):
    """Orders the active queue by spec.priority, then by the time of entering the queue."""

    name = "PrioritySort"

    def sort_key(self, pod: Pod, enqueued_at: float) -> tuple[float, ...]:
        """Return (-priority, time)."""
        return (-pod.spec.priority, enqueued_at)
