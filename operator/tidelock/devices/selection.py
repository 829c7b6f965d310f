"""Which devices the expressions of a class and of a request select.

The result for a device is kept with its slice, because all of it depends on the slice and the expression
alone.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Protocol

from tidelock.devices.errors import SEARCH_TIMED_OUT, AllocationError, SearchLimitError, SelectorError
from tidelock.devices.pools import Candidate
from tidelock.model.devices import Device, ResourceSlice
from tidelock.model.printable import shortened

MOST_COST = 3_000_000
"""The cost of all evaluations for a pod. A million take 0.02 s in a loop, and 0.15 s at worst so far."""
# Of each evaluation, in addition to that of its expression: the device is made visible to expressions.
_COST_OF_EVALUATION = 1000
# The most expensive expressions take some 0.005 ms a byte to compile, up to 10 KiB. So an attempt compiles
# one such expression, or several shorter ones.
_COST_OF_BYTE = 200
_LONGEST = 10 * 1024
# Expressions that are kept compiled, and those with results for each slice. A tenant can write any number.
_MOST_COMPILED = 256
# The characters of all of these. A compiled expression takes up to some 230 bytes for each, and 1,300 once
# its regular expressions have run.
_MOST_CHARACTERS = 64 * 1024
_MOST_RESULTS = 16

# As in Kubernetes (cel.EnhanceRuntimeError), in fewer characters.
_HINT = ". consider .? with orValue(), or has(), for optional fields"
_RESULTS = "selected"
_NOTHING_KEPT: dict[str, "_Results"] = {}

_Results = list[bool | str | None]
"""For each device of a slice whether it is selected, why that can't be said, or None before it is asked.

An exception would keep all values of its evaluation in memory.
"""


class CompiledSelector(Protocol):
    """A compiled expression."""

    def __call__(self, driver: str, device: Device) -> tuple[bool, int]:
        """Return whether a device is selected, and the cost of that, or raise SelectorError."""


SelectorCompiler = Callable[[str], CompiledSelector]
"""Compiles an expression, or raises SelectorError."""


class DeviceSelection:
    """Compiled expressions, and their results."""

    def __init__(self, compiler: SelectorCompiler) -> None:
        self._compiler = compiler
        self._cost_left = MOST_COST
        self._compiled: OrderedDict[str, CompiledSelector | str] = OrderedDict()

    def begin(self) -> None:
        """Begin with another pod. What the last one has left to find out is found out at its next attempt."""
        self._cost_left = MOST_COST

    @property
    def exhausted(self) -> bool:
        """Whether nothing more can be found out for this pod."""
        return self._cost_left < 0

    def selects(self, expressions: Iterable[str], candidate: Candidate, kind: str, name: str) -> bool:
        """Return whether all expressions select a device. They are asked in order until one does not.

        Args:
            expressions: the expressions of a class or claim.
            candidate: the device.
            kind: "class" or "claim", for messages.
            name: its name.

        Raises:
            AllocationError: an expression is invalid, or fails for the device.
            SearchLimitError: the evaluations for a pod cost too much.

        """
        kept: dict[str, _Results] = candidate.slice.__dict__.get(_RESULTS, _NOTHING_KEPT)
        for number, expression in enumerate(expressions):
            results = kept.get(expression)
            selected = None if results is None else results[candidate.index]
            if selected is True:
                continue
            if selected is False:
                return False
            where = f"{kind} {name}: selector #{number}"
            if not self._find_out(expression, candidate, where):
                return False
        return True

    def _find_out(self, expression: str, candidate: Candidate, where: str) -> bool:
        selector = self._compile(expression)
        if isinstance(selector, str):
            raise AllocationError(f"{where}: CEL compile error: {selector}")
        results = _results_of(candidate.slice, expression)
        selected = results[candidate.index]
        if selected is None:
            selected = results[candidate.index] = self._ask(selector, candidate)
        if isinstance(selected, str):
            hint = _HINT if "no such key:" in selected else ""
            raise AllocationError(f"{where} on device {candidate.id}: CEL runtime error: {selected}{hint}")
        return selected

    def _compile(self, expression: str) -> CompiledSelector | str:
        compiled = self._compiled.get(expression)
        if compiled is None:
            cost = min(len(expression), _LONGEST) * _COST_OF_BYTE
            if cost > self._cost_left:
                self._cost_left = -1
                raise SearchLimitError(SEARCH_TIMED_OUT)
            self._cost_left -= cost
            try:
                compiled = self._compiler(expression)
            except SelectorError as error:
                compiled = shortened(str(error))
            self._compiled[expression] = compiled
            while len(self._compiled) > _MOST_COMPILED or sum(map(len, self._compiled)) > _MOST_CHARACTERS:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(expression)
        return compiled

    def _ask(self, selector: CompiledSelector, candidate: Candidate) -> bool | str:
        if self._cost_left < 0:
            raise SearchLimitError(SEARCH_TIMED_OUT)
        self._cost_left -= _COST_OF_EVALUATION
        try:
            selected, cost = selector(candidate.id.driver, candidate.device)
        except SelectorError as error:
            self._cost_left -= error.cost
            return shortened(str(error))
        self._cost_left -= cost
        return selected


def _results_of(slice_: ResourceSlice, expression: str) -> _Results:
    """Return the results of an expression for the devices of a slice, which last as long as the slice."""
    kept: dict[str, _Results] = slice_.__dict__.setdefault(_RESULTS, {})
    results = kept.get(expression)
    if results is None:
        if len(kept) >= _MOST_RESULTS:
            del kept[next(iter(kept))]
        results = kept[expression] = [None] * len(slice_.spec.devices)
    return results
