"""Handles the requests about stored objects: one function a method and a sort of path."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from world.api import bodies, forms, managed_fields, patches, subresources
from world.api.causes import Cause
from world.api.deletion import DeleteOptions
from world.api.errors import (
    RefusedRequestError,
    bad_request,
    internal,
    invalid_options,
    invalid_patch,
    method_not_allowed,
    not_found,
    other_uid,
    unknown_media,
    unprocessable,
    unsupported_media,
)
from world.api.kinds import Kind
from world.api.lists import list_objects, render
from world.api.managed_fields import Writer
from world.api.operations import Steps, options_of
from world.api.patches import APPLY, JSON_PATCH, MERGE, STRATEGIC, MergeKeyError, PatchError
from world.api.schemas import schema_of
from world.api.selectors import selection
from world.api.storage import Storage, Stored
from world.api.watches import Watch
from world.api.writes import OTHER_NAMESPACE, Client, Place, Writes, read_version

if TYPE_CHECKING:
    from world.api.server import Request

Json = dict[str, Any]
Query = dict[str, str]
Result = tuple[int, bytes | Json] | Watch
Endpoint = Place

_DEFAULT_MANAGER = "unknown"


class Handlers:
    """The handlers of requests over one storage."""

    def __init__(self, storage: Storage, writes: Writes, kinds: Mapping[tuple[str, str, str], Kind]) -> None:
        self._storage = storage
        self._writes = writes
        self._kinds = kinds

    def handle(  # noqa: PLR0911 -- one for each method
        self, place: Endpoint, request: "Request", query: Query
    ) -> Steps[Result]:
        """Return the response to a request about stored objects. Raises RefusedRequestError."""
        match request.method, bool(place.name):
            case "GET", False:
                return self._list(place, query)
            case "GET", True:
                return self._get(place)
            case "POST", False if place.namespace or not place.kind.namespaced:
                return (yield from self._create(place, request, query))
            case "POST", True if place.subresource in {"binding", "eviction"}:
                return (yield from self._create_below(place, request, query))
            case "PUT", True:
                return (yield from self._replace(place, request, query))
            case "PATCH", True:
                return (yield from self._patch(place, request, query))
            case "DELETE", True if not place.subresource:
                return (yield from self._delete(place, request, query))
            case "DELETE", False if place.namespace or not place.kind.namespaced:
                return (yield from self._delete_all(place, request, query))
        if place.kind.custom is not None and not place.subresource:
            self._refuse_custom(place, request)
        raise method_not_allowed()

    def _refuse_custom(self, place: Place, request: "Request") -> None:
        """Refuse a method for custom kinds as their handler does, which reads the request first."""
        match request.method:
            case "PATCH":
                _patch_type(place.kind, request)
                raise bad_request("name must be provided")
            case "PUT":
                raise bad_request("name must be provided")
            case "POST":
                bodies.decode_new(place.kind, bodies.parse(request.body, place.kind))

    def _list(self, place: Place, query: Query) -> Result:
        if query.get("watch") in {"true", "1"}:
            return Watch(self._storage, place.kind, place.namespace, query)
        return 200, list_objects(self._storage, place.kind, place.namespace, query)

    def _get(self, place: Place) -> Result:
        stored = self._storage.get(place.resource, place.key)
        if stored is None:
            raise not_found(place.kind, place.name)
        if place.subresource == "scale":
            return 200, scale_of(stored)
        return 200, forms.whole(place.kind, stored)

    def _create(self, place: Place, request: "Request", query: Query) -> Steps[Result]:
        value = bodies.parse(request.body, place.kind)
        data = bodies.decode_new(place.kind, value, strict=_is_strict(query))
        stored = yield from self._writes.create(place, data, _client(request, query, "CreateOptions"))
        return 201, forms.whole(place.kind, stored)

    def _create_below(self, place: Place, request: "Request", query: Query) -> Steps[Result]:
        body = bodies.parse(request.body, place.kind)
        client = _client(request, query, "CreateOptions")
        if place.subresource == "binding":
            return 201, (yield from subresources.bind(self._writes, place, body, client))
        budgets = self._kinds["policy", "v1", "poddisruptionbudgets"]
        return 201, (yield from subresources.evict(self._writes, budgets, place, body, client))

    def _replace(self, place: Place, request: "Request", query: Query) -> Steps[Result]:
        value = bodies.parse(request.body, place.kind)
        if place.subresource == "scale":
            raise method_not_allowed()
        data = bodies.decode_new(place.kind, value, strict=_is_strict(query))
        client = _client(request, query, "UpdateOptions")
        meta = data["metadata"]
        if meta.get("name", "") != place.name:
            shown = meta.get("name", "")
            raise bad_request(
                f"the name of the object ({shown}) does not match the name on the URL ({place.name})"
                if shown
                else "name is required"
            )
        if place.kind.namespaced and meta.get("namespace", place.namespace) != place.namespace:
            raise bad_request(OTHER_NAMESPACE)
        if place.kind.upsert and self._storage.get(place.resource, place.key) is None:
            if meta.get("uid"):
                raise other_uid(place.kind, place.namespace, place.name, meta["uid"], "")
            read_version(meta.pop("resourceVersion", ""))
            stored = yield from self._writes.create(place, data, client)
            return 201, forms.whole(place.kind, stored)
        stored = yield from self._writes.update(place, lambda _: _copy(data), client, uid=meta.get("uid", ""))
        return 200, forms.whole(place.kind, stored)

    def _patch(self, place: Place, request: "Request", query: Query) -> Steps[Result]:
        kind = place.kind
        content_type = _patch_type(kind, request)
        client = _client(request, query, "PatchOptions")
        if content_type == APPLY:
            return (yield from self._apply(place, request, query, client))
        try:
            patch = msgspec.json.decode(request.body)
        except msgspec.DecodeError as error:
            raise bad_request(f"error decoding patch: {error}") from None
        if content_type == JSON_PATCH and not isinstance(patch, list):
            raise bad_request("error decoding patch")

        def transform(data: Json) -> Json:
            try:
                patched = _patched(kind, content_type, forms.as_served(kind, data), patch)
            except MergeKeyError as error:
                raise internal(str(error)) from None
            except PatchError as error:
                raise unprocessable() if content_type == JSON_PATCH else bad_request(str(error)) from None
            try:
                return bodies.decode(kind, patched, strict=_is_strict(query))
            except RefusedRequestError as refused:
                raise invalid_patch(refused.message) from None

        stored = yield from self._writes.update(place, transform, client)
        return 200, forms.whole(kind, stored)

    def _apply(self, place: Place, request: "Request", query: Query, client: Client) -> Steps[Result]:
        if not query.get("fieldManager"):
            cause = Cause.required("fieldManager", "is required for apply patch")
            raise invalid_options("PatchOptions", [cause])
        kind = place.kind
        applied = bodies.parse_yaml(request.body)
        applied.setdefault("metadata", {}).setdefault("name", place.name)
        writer = Writer(client.manager, "Apply", place.subresource)
        if self._storage.get(place.resource, place.key) is None and not place.subresource:
            data = bodies.decode_new(kind, applied, strict=True)
            stored = yield from self._writes.create(place, data, client, applied=applied)
            return 201, forms.whole(kind, stored)

        def transform(data: Json) -> Json:
            served = forms.as_served(kind, data)
            found = managed_fields.conflicts(kind, applied, served, writer)
            if found and query.get("force") not in {"true", "1"}:
                raise managed_fields.refuse_conflicts(found)
            result, _ = managed_fields.applied_result(kind, applied, served, writer)
            return bodies.decode(kind, result)

        stored = yield from self._writes.update(place, transform, client, applied=applied)
        return 200, forms.whole(kind, stored)

    def _delete(self, place: Place, request: "Request", query: Query) -> Steps[Result]:
        options = _delete_options(request, query)
        client = _client(request, query, "DeleteOptions")
        stored, removed = yield from self._writes.delete(place, options, client)
        if removed and not place.kind.returned:
            details = {
                "name": place.name,
                "group": place.kind.group,
                "kind": place.kind.plural,
                "uid": stored.meta["uid"],
            }
            shown = {name: value for name, value in details.items() if value}
            status = {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": shown,
            }
            return 200, status
        return 200, forms.whole(place.kind, stored)

    def _delete_all(self, place: Place, request: "Request", query: Query) -> Steps[Result]:
        options = _delete_options(request, query)
        client = _client(request, query, "DeleteOptions")
        chosen = selection(place.kind, query)
        table = self._storage.table(place.resource)
        prefix = f"{place.namespace}/" if place.namespace else ""
        revision = self._storage.revision
        found = [table[key] for key in sorted(table) if key.startswith(prefix) and chosen(table[key].data)]
        limit = int(query.get("limit") or 0)
        for stored in found[:limit] if limit else found:
            item = Place(place.kind, place.namespace, stored.meta["name"])
            try:
                yield from self._writes.delete(item, options, client)
            except RefusedRequestError as refused:
                if refused.code != 404:  # noqa: PLR2004 -- not found
                    raise
        metadata: Json = {"resourceVersion": str(revision)}
        if place.kind.custom is not None:
            metadata["continue"] = ""
        return 200, render(place.kind, metadata, found)


def scale_of(stored: Stored) -> Json:
    """Return the Scale of a workload."""
    meta, spec = stored.meta, stored.data["spec"]
    shown = {
        name: meta[name]
        for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if name in meta
    }
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": shown,
        "spec": {"replicas": spec.get("replicas", 0)},
        "status": {"replicas": (stored.data.get("status") or {}).get("replicas", 0)},
    }


def _copy(data: Json) -> Json:
    return {**data, "metadata": dict(data["metadata"])}


def _patched(kind: Kind, content_type: str, data: Json, patch: Any) -> Json:
    if content_type == JSON_PATCH:
        return patches.edited(data, patch)
    if not isinstance(patch, dict):
        raise PatchError("error decoding patch")
    if content_type == MERGE:
        result: Json = patches.merged(data, patch)
    else:
        result = patches.strategic(schema_of(kind.group, kind.version, kind.kind), data, patch)
    return result


def _patch_type(kind: Kind, request: "Request") -> str:
    """Return the media type of a patch. Raises RefusedRequestError for others than the kind's."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip()
    accepted = [JSON_PATCH, MERGE, *([] if kind.custom is not None else [STRATEGIC]), APPLY]
    if content_type not in accepted:
        raise unsupported_media(accepted) if kind.custom is not None else unknown_media()
    return content_type


def _is_strict(query: Query) -> bool:
    return query.get("fieldValidation") == "Strict"


def _client(request: "Request", query: Query, options: str) -> Client:
    manager = query.get("fieldManager") or request.headers.get("user-agent", "").partition("/")[0]
    return Client(request.user, manager or _DEFAULT_MANAGER, options_of(options, query))


def _delete_options(request: "Request", query: Query) -> DeleteOptions:
    body: Any = {}
    if request.body:
        try:
            body = msgspec.json.decode(request.body)
        except msgspec.DecodeError as error:
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(body, dict):
        raise bad_request("couldn't get version/kind; json parse error")
    return DeleteOptions.read(body, query)
