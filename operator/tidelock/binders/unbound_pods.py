"""The pods that are not bound yet, whichever scheduler they have, beside the event handlers' pods."""

from tidelock.binders.admission_check import AdmissionCheck
from tidelock.clock import Clock
from tidelock.kube.watch import EventHandler
from tidelock.model.meta import Key
from tidelock.model.pods import Pod


class UnboundPods:
    """A handler of pod events before the others': keeps unbound pods, and reports to the admission check."""

    def __init__(self, event_handlers: EventHandler[Pod], check: AdmissionCheck, clock: Clock) -> None:
        self._event_handlers = event_handlers
        self._check = check
        self._clock = clock
        self._unbound: dict[Key, Pod] = {}

    def find(self, key: Key) -> Pod | None:
        """Return the unbound pod of this namespace and name."""
        return self._unbound.get(key)

    def upsert(self, old: Pod | None, new: Pod) -> None:
        """Keep a pod's newest version."""
        self._event_handlers.upsert(old, new)
        if new.node_name:
            self._check.seen(new, self._clock.now())
            self._forget(new)
        else:
            self._unbound[new.key] = new

    def remove(self, last: Pod) -> None:
        """Forget a pod."""
        self._event_handlers.remove(last)
        self._check.gone(last.uid, self._clock.now())
        self._forget(last)

    def synced(self) -> None:
        """Do nothing, as all pods are known."""
        self._event_handlers.synced()

    def _forget(self, pod: Pod) -> None:
        known = self._unbound.get(pod.key)
        if known is not None and known.uid == pod.uid:
            del self._unbound[pod.key]
