"""DynamicResources: pods with resource claims are refused rather than bound wrongly.

In kube-scheduler 1.37 the scheduler allocates claims (plugins/dynamicresources). Tidelock does not do that.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import SKIP_ALIKE, Code, EnqueueExtensions, Handle, PreFilter, Status
from tidelock.framework.config_file import parse_duration
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import Registration
from tidelock.framework.plugin_args import read_args, refuse_args
from tidelock.model.pods import Pod

_REASON = "spec.resourceClaims: this scheduler does not allocate devices, leave the pod to another"


class _Args(msgspec.Struct, frozen=True, rename="camel"):
    """DynamicResourcesArgs, durations such as 10s."""

    filter_timeout: str = "10s"
    binding_timeout: str = "600s"


class DynamicResources(PreFilter, EnqueueExtensions):
    """Refuses pods with resource claims."""

    name = "DynamicResources"

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take kube-scheduler's args, which have no effect. Raises ValueError for those that it refuses."""
        refuse_args(self.name, _problems(read_args(self.name, args, _Args)))
        super().__init__(handle, {})

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Skip pods without resource claims."""
        if not pod.spec.resource_claims:
            return SKIP_ALIKE
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (_REASON,))

    def events_to_register(self) -> Sequence[Registration]:
        """Return no events: claims stay with a pod."""
        return ()


def _problems(args: _Args) -> Iterator[str]:
    for field, text, least in (
        ("filterTimeout", args.filter_timeout, 0.0),
        ("bindingTimeout", args.binding_timeout, 1.0),
    ):
        try:
            if parse_duration(text) < least:
                yield f"{field}: {text!r} is less than {least:.0f} s"
        except ValueError as error:
            yield f"{field}: {error}"
