"""Wire type of a device that a reservation holds for the pod of its template."""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from tidelock.model.api.wire import LONGEST_LABEL_KEY, DnsLabel, StatusWire, Subdomain, Uid
from tidelock.model.devices import DeviceId
from tidelock.model.quantities import parse_nanos
from tidelock.model.resource_claims import MOST_RESULTS, AllocatedDevice

MOST_TEMPLATE_CLAIMS = 16
"""The number of resource claims of a template. A pod can have more."""
MOST_RESERVED_DEVICES = MOST_TEMPLATE_CLAIMS * MOST_RESULTS


def _as_quantity(text: str) -> str:
    parse_nanos(text)
    return text


_NAMED_DEVICES = 3

_Consumed = Annotated[
    dict[
        Annotated[str, Field(max_length=LONGEST_LABEL_KEY)],
        Annotated[str, Field(max_length=64), AfterValidator(_as_quantity)],
    ],
    Field(max_length=32),
]


class ReservedDevice(StatusWire):
    """Device, or share of a device, that the reservation holds."""

    claim: DnsLabel | None = None
    """Name of the claim in spec.template.spec.resourceClaims. A device for an extended resource has none."""
    resource_claim_template_name: Subdomain | None = None
    """Name of the ResourceClaimTemplate of that claim."""
    resource_name: Annotated[str | None, Field(max_length=LONGEST_LABEL_KEY)] = None
    """Name of the extended resource that the device provides to the containers, if it is for no claim."""
    request: Annotated[str, Field(max_length=127)]
    """Name of the request in the claim. Of a request with alternatives it is request/alternative."""
    device_class_name: Subdomain
    """Name of the DeviceClass that the request asks for."""
    driver: Annotated[str, Field(max_length=63)]
    """Name of the driver of the device."""
    pool: Annotated[str, Field(max_length=253)]
    """Name of the pool of the device."""
    device: Annotated[str, Field(max_length=63)]
    """Name of the device in its pool."""
    share_id: Annotated[Uid | None, Field(alias="shareID")] = None
    """Identifier of the share, if other claims can use the device at the same time."""
    consumed_capacity: _Consumed | None = None
    """Amounts of the capacity of the device that the share holds."""

    @cached_property
    def id(self) -> DeviceId:
        """The full name of the device."""
        return DeviceId(self.driver, self.pool, self.device)

    @cached_property
    def allocated(self) -> AllocatedDevice:
        """The device as a claim would have it."""
        return AllocatedDevice(
            self.request,
            self.driver,
            self.pool,
            self.device,
            share_id=self.share_id,
            consumed_capacity=dict(self.consumed_capacity or {}),
        )

    def to_status(self) -> dict[str, Any]:
        """Return the item of status.devices."""
        return self.model_dump(mode="json", exclude_none=True)


def devices_text(devices: Sequence[ReservedDevice]) -> str:
    """Name devices, the first few of many."""
    names = list(dict.fromkeys(str(each.id) for each in devices))
    more = f" and {len(names) - _NAMED_DEVICES} more" if len(names) > _NAMED_DEVICES else ""
    if not names:
        return ""
    return f"{'devices' if len(names) > 1 else 'device'} {', '.join(names[:_NAMED_DEVICES])}{more}"
