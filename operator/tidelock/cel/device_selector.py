"""Selectors of devices: expressions over `device`, as in requests of ResourceClaims and in DeviceClasses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from tidelock.cel.compiler import STEP, Compiler, Variable
from tidelock.cel.errors import EvaluationError, ExpressionError, no_such_overload
from tidelock.cel.functions import COST_LEFT, DEVICE, Run
from tidelock.cel.libraries.amounts import read_quantity, read_version
from tidelock.cel.parser import parse
from tidelock.cel.types import BOOL, DYN, STRING, Type, map_of, read_type
from tidelock.cel.values import MAX_COST, Domains

MAX_LENGTH = 10 * 1024
"""Bytes of an expression, as `CELSelectorExpressionMaxLength` of the API."""


class Version(str):
    """The text of an attribute that is a semantic version."""

    __slots__ = ()


known_quantity = lru_cache(maxsize=16_384)(read_quantity)
"""`read_quantity` for devices, of which many have the same. What an expression makes is not kept."""
known_version = lru_cache(maxsize=16_384)(read_version)
"""`read_version` for devices."""
AttributeValue = bool | int | str | Version | list[bool | int | str | Version]

_OBJECT = Type("kubernetes.DRADevice")
_FIELDS = {
    "driver": STRING,
    "allowMultipleAllocations": BOOL,
    "attributes": map_of(STRING, map_of(STRING, DYN)),
    "capacity": map_of(STRING, map_of(STRING, read_type("Quantity"))),
}


@dataclass(frozen=True)
class SelectedDevice:
    """A device as a selector sees it.

    Names of attributes and of capacity are qualified, `domain/name`, or belong to the domain of the driver.
    An attribute is None if its type is not known here. Capacity is a quantity of the API.
    """

    driver: str
    attributes: Mapping[str, AttributeValue | None] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    allow_multiple_allocations: bool = False

    @cached_property
    def value(self) -> dict[str, object]:
        """Return the device as a value.

        Raises:
            EvaluationError: an attribute has no known type, or there is a bad version or quantity.

        """
        attributes, capacity = Domains(), Domains()
        for name, attribute in self.attributes.items():
            if attribute is None:
                raise EvaluationError(f"attribute {name}: unsupported attribute value")
            self._place(attributes, name, _read(attribute))
        for name, amount in self.capacity.items():
            self._place(capacity, name, known_quantity(amount))
        return {
            "driver": self.driver,
            "allowMultipleAllocations": self.allow_multiple_allocations,
            "attributes": attributes,
            "capacity": capacity,
        }

    def _place(self, domains: Domains, qualified: str, value: object) -> None:
        domain, slash, name = qualified.partition("/")
        if not slash:
            domain, name = self.driver, qualified
        domains.setdefault(domain, {})[name] = value


def _read(attribute: AttributeValue) -> object:
    """Return an attribute as a value of expressions. Raises EvaluationError for a bad version."""
    if isinstance(attribute, list):
        return [_read(each) for each in attribute]
    return known_version(str(attribute)) if isinstance(attribute, Version) else attribute


@dataclass(frozen=True, slots=True)
class DeviceSelector:
    """A compiled selector.

    `_steps` is the cost of its nodes, once each. It is no part of the limit, as the length of an expression
    limits it.
    """

    expression: str
    _run: Run
    _variables: int
    _steps: int

    @classmethod
    def compile(cls, expression: str) -> "DeviceSelector":
        """Parse, check and compile an expression that is a boolean. Raises ExpressionError."""
        try:
            if len(expression.encode()) > MAX_LENGTH:
                raise ExpressionError(f"the expression is longer than {MAX_LENGTH} bytes")
            compiler = Compiler({"device": Variable(_OBJECT, DEVICE)}, {_OBJECT.name: _FIELDS}, DEVICE + 1)
            tree = parse(expression)
            compiled = compiler.compile(tree)
        except UnicodeEncodeError:
            raise ExpressionError("the expression is not valid Unicode") from None
        except RecursionError:
            raise ExpressionError("the expression is nested too deeply") from None
        result = compiler.result_type(compiled)
        if result not in {BOOL, DYN}:
            raise ExpressionError(f"must evaluate to bool or the unknown type, not {result}")
        return cls(expression, compiled.run, compiler.slots - DEVICE - 1, STEP * tree.size)

    def matches(self, device: SelectedDevice) -> bool:
        """Return whether a device is selected. Raises EvaluationError as `evaluate` does."""
        return self.evaluate(device)[0]

    def evaluate(self, device: SelectedDevice) -> tuple[bool, int]:
        """Return whether a device is selected, and the cost of that.

        Raises:
            EvaluationError: the expression has no boolean value for this device, such as for a missing key,
                or it costs too much.

        """
        frame: list[Any] = [MAX_COST, device.value, *(None,) * self._variables]
        try:
            result = self._result(frame)
        except EvaluationError as error:
            error.cost = self._steps + MAX_COST - max(frame[COST_LEFT], 0)  # the rest was not done
            raise
        return result, self._steps + MAX_COST - frame[COST_LEFT]

    def _result(self, frame: list[Any]) -> bool:
        try:
            result = self._run(frame)
        except RecursionError:
            raise EvaluationError("a value is nested too deeply") from None
        if type(result) is not bool:
            raise no_such_overload()
        return result
