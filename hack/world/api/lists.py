"""Lists: pages, versions and selectors."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from world.api import forms
from world.api.causes import Cause
from world.api.errors import RefusedRequestError, bad_request, expired, invalid_options, too_large_version
from world.api.kinds import Kind
from world.api.selectors import everything, selection
from world.api.storage import Storage, Stored

Json = dict[str, Any]

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)
_NAMED = re.compile(r"(?:^|,)metadata\.name==?([^,]+)")
_TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 -- not a password
_MATCHES = ("Exact", "NotOlderThan")


def list_objects(storage: Storage, kind: Kind, namespace: str, query: Mapping[str, str]) -> bytes:
    """Return the JSON of a list, or of one page. Raises RefusedRequestError."""
    _check_match(query)
    chosen = selection(kind, query)
    limit = _number(query.get("limit", ""))
    token = query.get("continue", "")
    if token:
        revision, start = _read_token(storage, kind, namespace, token)
        if query.get("resourceVersion", "0") not in {"", "0"}:
            raise bad_request("specifying resource version is not allowed when using continue")
    else:
        asked = requested_version(query)
        if asked > storage.revision:
            raise too_large_version(kind, asked, storage.revision)
        exact = query.get("resourceVersionMatch") == "Exact" or (
            limit and asked and "resourceVersionMatch" not in query
        )
        revision, start = (asked if exact and asked else storage.revision), ""
    if revision < storage.compacted:
        raise expired(f"The provided resource version is too old: {revision}")
    table = storage.table(forms.resource_of(kind))
    if revision != storage.revision:
        table = storage.at(forms.resource_of(kind), revision)
    prefix = f"{namespace}/" if namespace else ""
    keys = sorted(key for key in table if key.startswith(prefix) and key >= start)
    if (named := _NAMED.search(query.get("fieldSelector", ""))) is not None:
        keys = [key for key in keys if key.rpartition("/")[2] == named[1]]  # which is a read of one key
    found = [key for key in keys if chosen(table[key].data)]
    metadata: Json = {"resourceVersion": str(revision)}
    if kind.custom is not None:
        metadata["continue"] = ""
    if limit and len(found) >= limit and keys[-1] > found[limit - 1]:
        # Whether a key follows decides, even if no selected object does.
        metadata["continue"] = _token(revision, found[limit - 1], namespace)
        if chosen is everything:
            metadata["remainingItemCount"] = len(found) - limit
        found = found[:limit]
    return render(kind, metadata, [table[key] for key in found])


def render(kind: Kind, metadata: Json, objects: list[Stored]) -> bytes:
    """Return the JSON of a list with given objects."""
    head = msgspec.json.encode(
        {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata}
    )
    return head[:-1] + b',"items":[' + b",".join(forms.item(kind, each) for each in objects) + b"]}"


def requested_version(query: Mapping[str, str]) -> int:
    """Return the resourceVersion of a request, or 0 without one. Raises RefusedRequestError."""
    text = query.get("resourceVersion", "")
    if not text:
        return 0
    if not text.isdecimal():
        shown = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        cause = Cause.invalid("resourceVersion", text, shown)
        raise RefusedRequestError(400, "BadRequest", f"invalid resource version: {cause.text}")
    return int(text)


def _check_match(query: Mapping[str, str]) -> None:
    match = query.get("resourceVersionMatch")
    if match is None:
        return
    causes = []
    if match not in _MATCHES:
        causes.append(Cause.unsupported("resourceVersionMatch", match, (*_MATCHES, "")))
    if not query.get("resourceVersion"):
        causes.append(
            Cause.forbidden(
                "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
            )
        )
    if query.get("continue"):
        causes.append(
            Cause.forbidden(
                "resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"
            )
        )
    if match == "Exact" and query.get("resourceVersion") == "0":
        causes.append(
            Cause.forbidden(
                "resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            )
        )
    if causes:
        raise invalid_options("ListOptions", causes)


def _number(text: str) -> int:
    try:
        return int(text or 0)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _token(revision: int, last: str, namespace: str) -> str:
    start = last.removeprefix(f"{namespace}/") if namespace else last
    content = {"v": _TOKEN_VERSION, "rv": revision, "start": start + "\0"}
    return base64.urlsafe_b64encode(msgspec.json.encode(content)).decode().rstrip("=")


def _read_token(storage: Storage, kind: Kind, namespace: str, token: str) -> tuple[int, str]:
    """Return the revision of a list, and the first key of its next page. Raises RefusedRequestError."""
    try:
        content = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        revision, start = int(content["rv"]), str(content["start"])
    except (binascii.Error, ValueError, KeyError, TypeError, msgspec.DecodeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    prefix = f"{namespace}/" if namespace and kind.namespaced else ""
    if revision < 0:
        return storage.revision, prefix + start
    if revision < storage.compacted:
        again = {"v": _TOKEN_VERSION, "rv": -1, "start": start}
        refused = expired(_TOO_OLD)
        refused.list_meta = {
            "continue": base64.urlsafe_b64encode(msgspec.json.encode(again)).decode().rstrip("=")
        }
        raise refused
    return revision, prefix + start
