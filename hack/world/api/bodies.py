"""Reads the bodies of requests: JSON, the kind of the object, and its fields."""

from typing import Any

import msgspec
import yaml

from world.api.decoding import Decoder, DecodingError
from world.api.defaults import fill_builtin
from world.api.errors import RefusedRequestError, bad_request, unreadable
from world.api.forms import as_stored
from world.api.kinds import BUILTIN, Kind
from world.api.schemas import schema_of

Json = dict[str, Any]

_KNOWN = {(each.api_version, each.kind) for each in BUILTIN}


def parse(body: bytes, kind: Kind) -> Json:
    """Return the JSON object of a body. Raises RefusedRequestError."""
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): couldn't get version/kind; "
            f"json parse error: {error}"
        ) from None
    if value is None and kind.custom is None:
        return {}  # as Go decodes null
    if not isinstance(value, dict):
        raise _unrecognized(kind, "couldn't get version/kind; json parse error")
    return value


def parse_yaml(body: bytes) -> Json:
    """Return the object of an apply's body. Raises RefusedRequestError."""
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError:
        try:
            value = yaml.safe_load(body)
        except yaml.YAMLError as error:
            raise bad_request(f"error decoding YAML: {error}") from None
    if not isinstance(value, dict):
        raise bad_request("error decoding YAML")
    return value


def decode_new(kind: Kind, value: Json, *, strict: bool = False) -> Json:
    """Return an object in the form in which it is stored, with its defaults. Raises RefusedRequestError."""
    _check_kind(kind, value)
    return decode(kind, value, strict=strict)


def decode(kind: Kind, value: Json, *, strict: bool = False) -> Json:
    """Return an object of a kind that is known to be right, as it is stored. Raises RefusedRequestError."""
    decoder = Decoder()
    try:
        if kind.custom is None:
            data = decoder.decode(schema_of(kind.group, kind.version, kind.kind), value)
            data |= {"apiVersion": kind.api_version, "kind": kind.kind}
            fill_builtin(kind.kind, data)
            data = as_stored(kind, data)
        else:
            data = kind.custom.decode(value, decoder.unknown)
            data["metadata"] = decoder.metadata(value.get("metadata", {}))
    except DecodingError as error:
        raise unreadable(kind, str(error)) from None
    if strict and decoder.unknown:
        listed = ", ".join(f'unknown field "{field}"' for field in decoder.unknown)
        raise unreadable(kind, f"strict decoding error: {listed}")
    return data


def _check_kind(kind: Kind, value: Json) -> None:
    api_version, named = (
        each if each is not None else "" for each in (value.get("apiVersion"), value.get("kind"))
    )
    if not isinstance(api_version, str) or not isinstance(named, str):
        raise _unrecognized(kind, "couldn't get version/kind; json parse error")
    if kind.custom is not None:
        if not named:
            raise _unrecognized(kind, "Object 'Kind' is missing")
        if api_version != kind.api_version:
            raise bad_request(
                f"the API version in the data ({api_version}) does not match the expected API version "
                f"({kind.api_version})"
            )
        return
    own = {kind.api_version, ""}
    if api_version in own and named in {kind.kind, ""}:
        return
    version = api_version or kind.api_version
    if (version, named or kind.kind) not in _KNOWN:
        raise unreadable(
            kind, f'no kind "{named or kind.kind}" is registered for version "{version}"', named, version
        )
    if api_version not in own and named in {kind.kind, ""}:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({kind.api_version})"
        )
    raise unreadable(kind, f"converting ({named}) to ({kind.kind}): unknown conversion", named)


def _unrecognized(kind: Kind, problem: str) -> RefusedRequestError:
    return bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): {problem}")
