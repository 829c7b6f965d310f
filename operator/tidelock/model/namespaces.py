"""Namespaces as the scheduler sees them: affinity terms select them by their labels."""

import msgspec

from tidelock.model.lenient import Reader
from tidelock.model.meta import ObjectMeta


class Namespace(msgspec.Struct, frozen=True):
    """A namespace."""

    metadata: ObjectMeta

    @property
    def meta(self) -> ObjectMeta:
        """Identity and labels."""
        return self.metadata


decode_namespace = Reader(Namespace, spare=r"metadata\.(annotations|ownerReferences).*")
