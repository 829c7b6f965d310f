"""The labels of placed pods as integer codes, so a selector is compared with all pods at once.

Each pod has a slot. A key of some pod is coded at the first query, and kept up to date from then on. The
namespaces and nodes of pods are coded in the same way. A pod without the label has the code -1, as has a slot
without a pod.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tidelock.cluster.arrays import Mask
from tidelock.cluster.columns import Columns, Rows
from tidelock.cluster.index.selection import Choice
from tidelock.model.pods import Pod
from tidelock.model.selectors import Requirement

LabelCodes = npt.NDArray[np.int32]

# How many keys are kept. The one without a query for the longest time goes first.
_KEYS = 256
# How many values that no pod has any more a key may keep: that many, or as many as there are slots.
_SPARE_VALUES = 1024


class LabelledPod(Protocol):
    """A pod on a node."""

    @property
    def pod(self) -> Pod:
        """The pod."""

    @property
    def node_name(self) -> str:
        """The node."""


class PodLabels:
    """The placed pods by slot, and the codes of the queried keys."""

    def __init__(self, columns: Columns) -> None:
        """Find pods on the nodes of the columns."""
        self._columns = columns
        self._slot_of: dict[str, int] = {}
        self._there: list[LabelledPod | None] = []
        self._unused: list[int] = []
        self._deleted: Mask = np.zeros(0, np.bool_)
        self._namespaces = _Coded(lambda each: each.pod.meta.namespace)
        self._nodes = _Coded(lambda each: each.node_name)
        self._rows: tuple[tuple[int, int, int], Rows] = (-1, 0, 0), np.zeros(0, np.intp)
        self._bearers: Counter[str] = Counter()
        self._coded: dict[str, _Coded] = {}

    def place(self, occupant: LabelledPod) -> None:
        """Add a pod that has been placed, or a newer version of it with the same labels and node."""
        pod = occupant.pod
        slot = self._slot_of.get(pod.uid)
        if slot is not None:
            self._there[slot] = occupant
            return
        slot = self._slot_of[pod.uid] = self._free_slot()
        self._there[slot] = occupant
        self._deleted[slot] = pod.metadata.deletion_timestamp is not None
        self._put(self._namespaces, slot, pod.meta.namespace)
        self._put(self._nodes, slot, occupant.node_name)
        for key, value in pod.meta.labels.items():
            self._bearers[key] += 1
            if (coded := self._coded.get(key)) is not None:
                self._put(coded, slot, value)

    def displace(self, occupant: LabelledPod) -> None:
        """Forget a pod."""
        slot = self._slot_of.pop(occupant.pod.uid, None)
        if slot is None:
            return
        known = self._there[slot]
        self._there[slot] = None
        self._unused.append(slot)
        self._namespaces.codes[slot] = self._nodes.codes[slot] = -1
        for key in known.pod.meta.labels if known is not None else ():
            self._bearers[key] -= 1
            if not self._bearers[key]:
                del self._bearers[key]
                self._coded.pop(key, None)
            elif (coded := self._coded.get(key)) is not None:
                coded.codes[slot] = -1

    def rows(self, choices: Iterable[Choice], *, deleted: bool) -> Rows:
        """Return the rows of the pods that all choices select, once for each pod on a node that is known.

        Args:
            choices: at least one.
            deleted: whether pods that are being deleted are among them.

        """
        selected = self._renewed(self._namespaces).codes >= 0
        if not deleted:
            selected &= ~self._deleted
        for choice in choices:
            for condition in self._conditions(choice):
                selected &= condition
        rows = self._row_of_node()[self._nodes.codes[selected]]
        return rows[rows >= 0]

    def _conditions(self, choice: Choice) -> Iterator[Mask]:
        if choice.selection.nothing:
            yield np.zeros(len(self._there), np.bool_)
            return
        if choice.namespaces is not None:
            yield self._namespaces.among(choice.namespaces)
        for key, value in choice.selection.pairs:
            yield self._of(key).among((value,))
        for requirement in choice.selection.requirements:
            yield self._satisfying(requirement)

    def _satisfying(self, requirement: Requirement) -> Mask:
        coded = self._of(requirement.key)
        match requirement.operator:
            case "In":
                return coded.among(requirement.values)
            case "NotIn":
                return ~coded.among(requirement.values)
            case "Exists":
                return coded.codes >= 0
            case "DoesNotExist":
                return coded.codes < 0
            case _:
                key = requirement.key
                return coded.among(value for value in coded.code_of if requirement.matches({key: value}))

    def _of(self, key: str) -> "_Coded":
        """Return the codes of a key. A key of no pod costs nothing: selectors may name any number."""
        if key not in self._bearers:
            return _Coded(lambda _: None, len(self._there))
        coded = self._coded.pop(key, None) or _Coded(lambda each: each.pod.meta.labels.get(key))
        self._coded[key] = coded
        if len(self._coded) > _KEYS:
            del self._coded[next(iter(self._coded))]
        return self._renewed(coded)

    def _put(self, coded: "_Coded", slot: int, value: str) -> None:
        """Code a value of a pod. Values that no pod has any more are forgotten, even if no query comes."""
        coded.put(slot, value)
        if len(coded.code_of) > 2 * len(self._there) + _SPARE_VALUES:
            coded.take(self._there)

    def _renewed(self, coded: "_Coded") -> "_Coded":
        """Code all pods, if that has not been done, or for values that no pod has any more."""
        if len(coded.codes) < len(self._there) or len(coded.code_of) > len(self._there) + _SPARE_VALUES:
            coded.take(self._there)
        return coded

    def _row_of_node(self) -> Rows:
        """Return the row of each node by its code, -1 if it is not known."""
        coded = self._renewed(self._nodes)
        names = coded.code_of
        state = self._columns.version, len(names), coded.times
        if self._rows[0] != state:
            row_of = self._columns.row_of
            self._rows = state, np.array([row_of.get(name, -1) for name in names], np.intp)
        return self._rows[1]

    def _free_slot(self) -> int:
        if not self._unused:
            slots = len(self._there)
            more = max(64, slots)
            self._there += [None] * more
            self._unused = list(range(slots + more - 1, slots - 1, -1))
            self._deleted = np.concatenate((self._deleted, np.zeros(more, np.bool_)))
            for coded in (self._namespaces, self._nodes, *self._coded.values()):
                coded.reach(slots + more)
        return self._unused.pop()


class _Coded:
    """One value of each pod: its code by slot."""

    def __init__(self, value_of: Callable[[LabelledPod], str | None], slots: int = 0) -> None:
        self._value_of = value_of
        self.code_of: dict[str, int] = {}
        self.codes: LabelCodes = np.full(slots, -1, np.int32)
        self.times = 0  # that all pods were coded

    def put(self, slot: int, value: str) -> None:
        self.codes[slot] = self.code_of.setdefault(value, len(self.code_of))

    def take(self, there: list[LabelledPod | None]) -> None:
        """Code all pods, and forget earlier values."""
        self.times += 1
        code_of: dict[str, int] = {}
        self.code_of = code_of
        values = [None if each is None else self._value_of(each) for each in there]
        self.codes = np.array(
            [-1 if value is None else code_of.setdefault(value, len(code_of)) for value in values], np.int32
        )

    def reach(self, slots: int) -> None:
        more = np.full(slots - len(self.codes), -1, np.int32)
        self.codes = np.concatenate((self.codes, more))

    def among(self, values: Iterable[str]) -> Mask:
        """Return which pods have one of these values."""
        codes = [code for value in values if (code := self.code_of.get(value)) is not None]
        if len(codes) == 1:
            return np.equal(self.codes, codes[0])
        chosen = np.zeros(len(self.code_of) + 1, np.bool_)  # the last is for pods without any
        chosen[codes] = True
        return chosen.take(self.codes)
