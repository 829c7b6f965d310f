"""The pods of the queue by uid, and by the claims that they name."""

from collections import defaultdict
from collections.abc import Collection

from tidelock.framework.events import Resource
from tidelock.framework.pod_claims import named_claims
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.scheduler.core.queued_pod import QueuedPodInfo


class QueuedPods:
    """All pods of the queue, which alone adds and removes them.

    Attributes:
        by_uid: the pods.

    """

    def __init__(self) -> None:
        self.by_uid: dict[str, QueuedPodInfo] = {}
        self._users: defaultdict[tuple[Resource, Key], dict[str, None]] = defaultdict(dict)

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return a pod of the queue."""
        return self.by_uid.get(uid)

    def users(self, claim: tuple[Resource, Key]) -> Collection[str]:
        """Return the uids of the pods that name a claim."""
        return self._users.get(claim, ())

    def change_claims(self, old: Pod | None, new: Pod | None) -> None:
        """Note the claims that a pod names, which has come to the queue, has changed there or leaves it."""
        if old is not None:
            for claim in named_claims(old):
                self._users[claim].pop(old.uid, None)
                if not self._users[claim]:
                    del self._users[claim]
        if new is not None:
            for claim in named_claims(new):
                self._users[claim][new.uid] = None
