"""Conditions on all devices of some requests: equal or distinct values of an attribute.

Semantics of Kubernetes 1.37, dynamic-resource-allocation/structured (incubating). A list is a value of no
known type there, as its gate DRAListTypeAttributes is off: it agrees with no other device.
"""

from dataclasses import dataclass, field

from tidelock.model.devices import AttributeList, AttributeScalar, Device
from tidelock.model.resource_claims import DeviceConstraint

_Value = tuple[str, AttributeScalar | AttributeList]


@dataclass(slots=True)
class AttributeConstraint:
    """One constraint of a claim, with the values of the devices that are allocated so far.

    `add` is called for each device before it is allocated, and `remove` undoes the last `add` that returned
    True.
    """

    requests: frozenset[str]
    attribute: str
    distinct: bool
    _values: list[_Value | None] = field(default_factory=list)

    def add(self, request: str, alternative: str, device: Device, driver: str) -> bool:
        """Count a device, and return True, unless the constraint does not admit it.

        Args:
            request: the name of the request.
            alternative: the name of the request or of its chosen alternative, as in results.
            device: the device.
            driver: its driver, the default domain of its attributes.

        """
        if not self._concerns(request, alternative):
            return True
        found = device.attribute(self.attribute, driver)
        if found is None:
            return False
        value = found.typed
        if self._values and not self._agrees(value):
            return False
        self._values.append(value)
        return True

    def remove(self, request: str, alternative: str) -> None:
        """Stop to count the last device."""
        if self._concerns(request, alternative):
            self._values.pop()

    def _agrees(self, value: _Value | None) -> bool:
        if value is None or isinstance(value[1], tuple):
            return False
        return value not in self._values if self.distinct else value == self._values[0]

    def _concerns(self, request: str, alternative: str) -> bool:
        return not self.requests or request in self.requests or alternative in self.requests


def constraint_of(constraint: DeviceConstraint) -> AttributeConstraint | None:
    """Return a constraint with no devices, or None for a type that is not known here."""
    requests = frozenset(constraint.requests)
    if constraint.match_attribute is not None:
        return AttributeConstraint(requests, constraint.match_attribute, distinct=False)
    if constraint.distinct_attribute is not None:
        return AttributeConstraint(requests, constraint.distinct_attribute, distinct=True)
    return None
