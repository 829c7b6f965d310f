"""The live cluster in an offline scheduler, to try decisions on, and the scheduler's configuration."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from tidelock.cli.failure import Failure
from tidelock.cli.session import Session
from tidelock.framework.config import Configuration
from tidelock.framework.config_file import ConfigurationError
from tidelock.kube.client import NODES, PODS, RESERVATIONS, ApiResource
from tidelock.kube.errors import Forbidden, NotFound
from tidelock.kube.listing import list_all
from tidelock.plugins.registry import read_configuration_file
from tidelock.scheduler.informers.informers import OPTIONAL, OTHERS, OWN
from tidelock.scheduler.informers.offline import OfflineScheduler
from tidelock.settings import DEFAULT_SCHEDULER_NAME

_NEEDED = {"nodes": NODES, "pods": PODS, "reservations": RESERVATIONS}


@dataclass(frozen=True, slots=True)
class ClusterState:
    """All objects that decisions need, as JSON by resource. `unseen` are resources that may not be listed."""

    objects: Mapping[str, list[msgspec.Raw]]
    unseen: tuple[str, ...]

    def picture(self, configuration: Configuration, now: float, without: str = "") -> OfflineScheduler:
        """Return a decider with all these objects, without the pod with that uid."""
        try:
            return OfflineScheduler.of(configuration, self.objects, now, without)
        except ConfigurationError as error:
            raise Failure(f"--config: {error}") from error

    @property
    def remarks(self) -> list[str]:
        """Remarks about resources that could not be listed."""
        if not self.unseen:
            return []
        names = ", ".join(self.unseen)
        return [f"You may not list {names}: plugins that read them assume that there are none."]


async def look(session: Session) -> ClusterState:
    """List all objects that decisions need. Those for some plugins only may be forbidden, or not served."""
    kinds = {**OTHERS, **OWN, **OPTIONAL}
    others: dict[str, ApiResource] = {name: resource for name, (resource, _) in kinds.items()}
    lists = await asyncio.gather(
        *(list_all(session.client, resource) for resource in _NEEDED.values()),
        *(_if_allowed(session, resource) for resource in others.values()),
    )
    found = dict(zip((*_NEEDED, *others), lists, strict=True))
    unseen = tuple(
        others[name].plural for name, listed in found.items() if listed is None and name not in OPTIONAL
    )
    return ClusterState({name: listed for name, listed in found.items() if listed is not None}, unseen)


async def _if_allowed(session: Session, resource: ApiResource) -> list[msgspec.Raw] | None:
    try:
        return await list_all(session.client, resource)
    except NotFound:  # a cluster that does not serve the resource has no objects of it
        return []
    except Forbidden:
        return None


def configuration_of(file: str) -> Configuration:
    """Read the scheduler's configuration, or return the default one. Extenders are not called.

    Raises:
        Failure: the file can't be read.

    """
    try:
        return replace(read_configuration_file(file, DEFAULT_SCHEDULER_NAME), extenders=())
    except ConfigurationError as error:
        raise Failure(f"--config: {file}: {error}") from error
