"""The devices that a reservation would hold, from the plugin that allocates devices to its placement."""

from collections.abc import Callable
from dataclasses import dataclass

from tidelock.model.api.reserved_devices import ReservedDevice


@dataclass(frozen=True, slots=True)
class DevicesToHold:
    """The devices for the resource claims of a reserve pod. `on` returns those of a node that fits."""

    on: Callable[[str], tuple[ReservedDevice, ...]]
