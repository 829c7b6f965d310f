"""Whether an event wakes a pod that a plugin has refused."""

from collections.abc import Iterable
from typing import Any

from tidelock.framework.api import EnqueueExtensions, Plugin
from tidelock.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    ClusterEvent,
    Registration,
    Resource,
    node_changes,
    pod_changes,
)
from tidelock.framework.pod_claims import named_claims
from tidelock.model.namespaces import Namespace
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from unit.plugins.scene import Scene

_RESOURCES: dict[type[Any], Resource] = {
    Namespace: Resource.NAMESPACE,
    PersistentVolumeClaim: Resource.PERSISTENT_VOLUME_CLAIM,
    PersistentVolume: Resource.PERSISTENT_VOLUME,
    StorageClass: Resource.STORAGE_CLASS,
    CsiNode: Resource.CSI_NODE,
    CsiDriver: Resource.CSI_DRIVER,
    CsiStorageCapacity: Resource.CSI_STORAGE_CAPACITY,
    VolumeAttachment: Resource.VOLUME_ATTACHMENT,
}


def wakes(
    kind: type[Plugin], refused: Pod, event: ClusterEvent, old: Any, new: Any, scene: Scene | None = None
) -> bool:
    """Return whether an event may help a pod that the plugin refused."""
    return woken_by(kind((scene or Scene()).handle, {}), refused, [event], old, new)


def change_wakes(kind: type[Plugin], refused: Pod, old: Any, new: Any, scene: Scene | None = None) -> bool:
    """Return whether any event of an object that came, changed or went may help a pod."""
    return woken_by(kind((scene or Scene()).handle, {}), refused, changes(old, new), old, new)


def woken_by(plugin: Plugin, refused: Pod, events: Iterable[ClusterEvent], old: Any, new: Any) -> bool:
    """Return whether one of the events of a change wakes a pod that the plugin refused."""
    assert isinstance(plugin, EnqueueExtensions)
    return any(
        registration.event.covers(event)
        and _concerns(registration, refused, event, old, new)
        and (registration.hint is None or registration.hint(refused, old, new))
        for event in events
        for registration in plugin.events_to_register()
    )


def _concerns(registration: Registration, refused: Pod, event: ClusterEvent, old: Any, new: Any) -> bool:
    """Return whether the queue asks the hint about a pod."""
    if registration.only_users is None or not registration.only_users(old, new):
        return True
    thing = old if new is None else new
    return (event.resource, thing.meta.key) in named_claims(refused)


def changes(old: Any, new: Any) -> list[ClusterEvent]:
    """Return the events of an object that came, changed or went. Pods are bound ones, or the refused one."""
    thing = new if new is not None else old
    if isinstance(thing, Pod):
        return (
            list(pod_changes(old, new)) if old and new else [ASSIGNED_POD_ADD if new else ASSIGNED_POD_DELETE]
        )
    if isinstance(thing, Node):
        return list(node_changes(old, new)) if old and new else [NODE_ADD if new else NODE_DELETE]
    action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE
    return [ClusterEvent(_RESOURCES[type(thing)], action)]
