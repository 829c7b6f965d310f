"""Services and controllers as the scheduler sees them: selectors of pods that belong together."""

import msgspec

from tidelock.model.lenient import Reader
from tidelock.model.meta import ObjectMeta
from tidelock.model.selectors import LabelSelector


class _PlainSelection(msgspec.Struct, frozen=True):
    selector: dict[str, str] = {}


class _Selection(msgspec.Struct, frozen=True):
    selector: LabelSelector = LabelSelector()
    replicas: int = 1


class Service(msgspec.Struct, frozen=True):
    """A Service, or a ReplicationController: both select pods by labels alone."""

    metadata: ObjectMeta
    spec: _PlainSelection = _PlainSelection()

    @property
    def meta(self) -> ObjectMeta:
        """Identity and labels."""
        return self.metadata


class Workload(msgspec.Struct, frozen=True):
    """A ReplicaSet or StatefulSet."""

    metadata: ObjectMeta
    spec: _Selection = _Selection()

    @property
    def meta(self) -> ObjectMeta:
        """Identity and labels."""
        return self.metadata


# They only make nodes more or less welcome, so a partly readable one is good enough.
decode_service = Reader(Service, spare=".*")
decode_workload = Reader(Workload, spare=".*")
