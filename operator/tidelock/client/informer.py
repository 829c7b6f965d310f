"""The versions of the objects of one kind in one namespace, from one watch that all holders share."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NoReturn, TypeAlias

import msgspec

from tidelock.kube.client import ApiResource, KubeClient
from tidelock.kube.watch import Reflector
from tidelock.model.lenient import Reader
from tidelock.model.meta import Key, ObjectMeta, StoredObject

_READ = Reader(StoredObject)


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an object: metadata, the token that commits it, and the status as plain JSON values."""

    meta: ObjectMeta
    status: dict[str, Any]
    token: str = ""
    gone: bool = False


def read_version(raw: bytes | msgspec.Raw) -> Version:
    """Decode the metadata and the status of an object, or raise ValueError."""
    stored = _READ(raw)
    commit = stored.spec.get("commit")
    token = commit.get("token") if isinstance(commit, dict) else None
    return Version(stored.metadata, stored.status, token if isinstance(token, str) else "")


Listener: TypeAlias = Callable[[Version | None], None]
"""Takes the versions of the objects of one name. None asks for a read: one may have come and gone unseen."""


class Informer:
    """Delivers each version of an object to the listeners of its name."""

    def __init__(self, client: KubeClient, resource: ApiResource, namespace: str) -> None:
        rng = Random()  # noqa: S311 -- for jitter
        self._namespace = namespace
        self._listeners: defaultdict[str, set[Listener]] = defaultdict(set)
        self._reflector = Reflector(client, resource, read_version, self, rng=rng, namespace=namespace)

    async def run(self) -> NoReturn:
        """Watch until cancelled, through all failures of the API server."""
        await self._reflector.run()

    @contextmanager
    def follow(self, name: str, listener: Listener) -> Iterator[None]:
        """Call a listener with each version of the objects of a name, beginning with the known one."""
        if (known := self._reflector.store.get(Key(self._namespace, name))) is not None:
            listener(known)
        self._listeners[name].add(listener)
        try:
            yield
        finally:
            self._listeners[name].discard(listener)
            if not self._listeners[name]:
                del self._listeners[name]

    def upsert(self, old: Version | None, new: Version) -> None:
        """Deliver a new version."""
        del old
        self._deliver(new.meta.name, new)

    def remove(self, last: Version) -> None:
        """Deliver the end of an object."""
        self._deliver(last.meta.name, replace(last, gone=True))

    def synced(self) -> None:
        """Ask the listeners of absent objects to read: such an object may have gone between two lists."""
        for name in tuple(self._listeners):
            if Key(self._namespace, name) not in self._reflector.store:
                self._deliver(name, None)

    def _deliver(self, name: str, version: Version | None) -> None:
        for listener in tuple(self._listeners.get(name, ())):
            listener(version)
