"""The frame around objects in lists and watches, which is readable for any kind."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from tidelock.kube.errors import MalformedResponse
from tidelock.model.meta import Key
from tidelock.model.nesting import DEEPEST, depth_bounded, shallow

_T = TypeVar("_T")


class Identity(msgspec.Struct, frozen=True, rename="camel"):
    """Name and version of an object. A bookmark has only a version."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """Version of a list, and the token of its next page, which is empty on the last one."""

    resource_version: str
    token: str = msgspec.field(name="continue", default="")


class ListPage(msgspec.Struct, frozen=True):
    """One page of a list."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: Identity


class _Uid(msgspec.Struct, frozen=True):
    uid: str = ""


class _WithUid(msgspec.Struct, frozen=True):
    metadata: _Uid


_decode_uid = msgspec.json.Decoder(_WithUid).decode
_decode_event = msgspec.json.Decoder(WatchEvent).decode
_decode_object = msgspec.json.Decoder(_Object).decode
_decode_page = msgspec.json.Decoder(ListPage).decode


def parse_event(line: bytes) -> WatchEvent:
    """Read one line of a watch, or raise MalformedResponse."""
    return _parse(_decode_event, line)


def parse_identity(raw: bytes) -> Identity:
    """Read the name and version of an object of any kind, or raise MalformedResponse."""
    return _parse(_decode_object, raw).metadata


def parse_uid(raw: bytes | msgspec.Raw) -> str:
    """Read the uid of an object, or empty if it can't be read."""
    try:
        return _decode_uid(raw).metadata.uid
    except (ValueError, RecursionError):
        return ""


def parse_page(body: bytes) -> ListPage:
    """Read the answer to a list request, or raise MalformedResponse."""
    return _parse(_decode_page, body)


def parse_version(text: str) -> int:
    """Parse a resource version as a number, so it can be compared, or raise MalformedResponse."""
    try:
        return int(text)
    except ValueError as error:
        raise MalformedResponse(f"no resource version: {text!r}") from error


def _parse(decode: Callable[[bytes], _T], data: bytes) -> _T:
    try:
        return decode(data)
    except ValueError as error:
        raise MalformedResponse(str(error)) from error
    except RecursionError:
        return _parse_shallow(decode, bytes(data))


def _parse_shallow(decode: Callable[[bytes], _T], data: bytes) -> _T:
    """Parse data with an object that is nested too deeply. Its remains report the fault."""
    try:
        return depth_bounded(decode)(shallow(data, 2 * DEEPEST))
    except ValueError as error:
        raise MalformedResponse(str(error)) from error
