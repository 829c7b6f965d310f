"""Lenient decoding of objects of other authors: every readable part is read.

Kubelets, drivers and controllers write JSON that their own types allow, such as null for an empty list. So
null means empty here for every list, map and object, and an amount beyond 64 bits is the largest that fits. A
part that can't be read is left out, and noted as a fault in the object's metadata. Decisions don't use an
object without a part that they need (`ObjectMeta.unreadable`).

msgspec decodes an ordinary object at once. Only an object that msgspec refuses is taken apart. An object that
is nested too deeply is decoded without its deepest levels, which also count as a fault
(`tidelock.model.nesting`).
"""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import UnionType
from typing import Any, Final, Generic, Protocol, TypeVar, Union, get_args, get_origin

import msgspec

from tidelock.model.meta import Fault, ObjectMeta, StoredObject, field_path
from tidelock.model.nesting import DEEPEST, cut, depth_bounded, is_flat
from tidelock.model.quantities import QuantityError, capped_quantity

_MOST_FAULTS = 16  # of one object: enough to find the cause
_PROBLEM_LENGTH = 200
# No decision needs these fields, whatever the kind.
_SPARE = r"metadata\.(creationTimestamp|managedFields.*)"
_LOST: Final = object()

Location = tuple[int | str, ...]


class HasMetadata(Protocol):
    """A struct that is decoded from an object of the API."""

    @property
    def metadata(self) -> ObjectMeta:
        """Identity, version and faults."""


_T = TypeVar("_T", bound=HasMetadata)
_S = TypeVar("_S", bound=msgspec.Struct)


class Reader(Generic[_T]):
    """Decodes the objects of one kind.

    Attributes:
        kind: the struct that each object is decoded to.

    """

    def __init__(
        self, kind: type[_T], *, spare: str = "", check: Callable[[_T], object] | None = None
    ) -> None:
        r"""Prepare to decode structs of a kind.

        Args:
            kind: the struct; a `str | int` in it is a quantity.
            spare: a regular expression of the paths that no decision needs, such as
                `status\.images.*`; for Tidelock's own kinds, the whole status.
            check: raises QuantityError for a quantity that would fail in the middle of a decision.

        """
        self.kind = kind
        self._decode = msgspec.json.Decoder(kind).decode
        self._check = check
        self._keeps_plain = issubclass(kind, StoredObject)
        spare = spare or ("status.*" if self._keeps_plain else "")
        self._spare = f"{_SPARE}|{spare}" if spare else _SPARE  # compiled for the first fault

    def __call__(self, raw: bytes | msgspec.Raw) -> _T:
        """Decode an object. Raises ValueError if its JSON is broken, or if it has no name."""
        if self._keeps_plain and not is_flat(bytes(raw)):
            return self._decode_shallow(bytes(raw))
        try:
            return self._decode_or_salvage(raw)
        except RecursionError:
            return self._decode_shallow(bytes(raw))

    def _decode_or_salvage(self, raw: bytes | msgspec.Raw) -> _T:
        try:
            decoded = self._decode(raw)
            if self._check is not None:
                self._check(decoded)
        except (msgspec.ValidationError, QuantityError):
            return self._salvage(msgspec.json.decode(raw))
        return decoded

    def _decode_shallow(self, raw: bytes) -> _T:
        """Decode an object without its deepest levels, which are needed unless they are in the status."""
        left = cut(raw)
        if left is None:
            return depth_bounded(self._decode_or_salvage)(raw)
        decoded: Any = depth_bounded(self._decode_or_salvage)(left.raw)
        path = field_path(left.path)
        needed = re.fullmatch(self._spare, path) is None
        fault = Fault(path, f"is nested more than {DEEPEST} levels deep", needed=needed)
        metadata = msgspec.structs.replace(decoded.metadata, faults=(fault, *decoded.metadata.faults))
        cut_down: _T = msgspec.structs.replace(decoded, metadata=metadata)
        return cut_down

    def _salvage(self, plain: object) -> _T:
        parts = _Parts()
        decoded: Any = parts.read(plain, self.kind, ())
        faults = [
            Fault(path, problem, needed=re.fullmatch(self._spare, path) is None)
            for path, problem in parts.faults.items()
        ]
        faults.sort(key=lambda fault: not fault.needed)
        metadata: ObjectMeta = msgspec.structs.replace(decoded.metadata, faults=tuple(faults[:_MOST_FAULTS]))
        if "metadata.uid" in parts.faults:
            metadata = msgspec.structs.replace(metadata, uid=str(metadata.key))
        salvaged: _T = msgspec.structs.replace(decoded, metadata=metadata)
        return salvaged


def decode(raw: bytes | msgspec.Raw, kind: type[_S]) -> _S:
    """Decode a struct, where null means empty, or raise ValueError for any bad part."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError:
        return convert(msgspec.json.decode(raw), kind)
    except RecursionError:
        raise msgspec.DecodeError("is nested too deeply") from None


def convert(plain: object, kind: type[_S]) -> _S:
    """Convert plain values to a struct, where null means empty, or raise ValidationError for any bad part."""
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError:
        parts = _Parts()
        converted: _S = parts.read(plain, kind, ())
        for path, problem in parts.faults.items():
            raise msgspec.ValidationError(f"{problem} - at `$.{path}`") from None
        return converted


class _Parts:
    """Reads one object part by part.

    Attributes:
        faults: the errors of the parts that were left out, with their paths.

    """

    def __init__(self) -> None:
        self.faults: dict[str, str] = {}

    def read(self, value: object, hint: Any, at: Location) -> Any:
        """Read a value without its unreadable parts, or raise ValueError if nothing is left."""
        quantities = _has_quantities(hint)
        if not quantities:
            with suppress(msgspec.ValidationError):
                return msgspec.convert(value, hint)
        for each in _alternatives(hint):
            if isinstance(value, dict) and _is_struct(each):
                return self._struct(value, each, at)
            if isinstance(value, dict) and get_origin(each) is dict:
                return self._map(value, get_args(each)[1], at)
            if isinstance(value, list) and get_origin(each) is tuple:
                return tuple(self._items(value, get_args(each)[0], at))
        converted = msgspec.convert(value, hint)  # raises the error of the value itself
        return capped_quantity(str(at[-1]), converted) if quantities else converted

    def _struct(self, plain: dict[str, object], kind: Any, at: Location) -> Any:
        found = {
            field.name: self._part(plain.get(field.encode_name), field.type, (*at, field.encode_name))
            for field in _fields(kind)
        }
        for field in _fields(kind):
            if found[field.name] is _LOST:
                if field.required:
                    raise msgspec.ValidationError(f"Object missing required field `{field.encode_name}`")
                del found[field.name]
        return kind(**found)

    def _map(self, plain: dict[str, object], hint: Any, at: Location) -> dict[str, Any]:
        found = {name: self._part(value, hint, (*at, name)) for name, value in plain.items()}
        return {name: part for name, part in found.items() if part is not _LOST}

    def _items(self, plain: list[object], hint: Any, at: Location) -> list[Any]:
        found = [self._part(value, hint, (*at, index)) for index, value in enumerate(plain)]
        return [part for part in found if part is not _LOST]

    def _part(self, value: object, hint: Any, at: Location) -> Any:
        """Read a part, or note why it can't be read. A null counts as absent."""
        if value is None:
            return _LOST
        try:
            return self.read(value, hint, at)
        except ValueError as error:
            self.faults[field_path(at)] = str(error).partition(" - at `")[0][:_PROBLEM_LENGTH]
            return _LOST


@cache
def _fields(kind: Any) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


@cache
def _alternatives(hint: Any) -> tuple[Any, ...]:
    """List the types of a union. Any other type is its only alternative."""
    return get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)


@cache
def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


@cache
def _has_quantities(hint: Any) -> bool:
    """Whether a quantity is anywhere in a type."""
    if {str, int} <= set(_alternatives(hint)):
        return True
    inside = (field.type for field in _fields(hint)) if _is_struct(hint) else get_args(hint)
    return any(map(_has_quantities, inside))
