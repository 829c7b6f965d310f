"""Lists and watches of the API server in memory."""

from typing import Any

import pytest

from world.api.local import LocalClient, events_of

Json = dict[str, Any]

MAPS = "/api/v1/namespaces/default/configmaps"
RESERVATIONS = "/apis/tidelock.dev/v1alpha1/namespaces/default/reservations"


def create(api: LocalClient, name: str, **labels: str) -> Json:
    made: Json = api.create(MAPS, {"metadata": {"name": name, "labels": labels}}).body
    return made


def names(listed: Json) -> list[str]:
    return [each["metadata"]["name"] for each in listed["items"]]


def test_pages_show_one_version(api: LocalClient) -> None:
    for name in "abc":
        create(api, name)
    first = api.get(f"{MAPS}?limit=2").body
    api.delete(f"{MAPS}/c")
    create(api, "d")
    second = api.get(f"{MAPS}?limit=2&continue={first['metadata']['continue']}").body
    assert (names(first), names(second)) == (["a", "b"], ["c"])
    assert first["metadata"]["remainingItemCount"] == 1


def test_a_token_expires_with_its_version(api: LocalClient) -> None:
    for name in "abc":
        create(api, name)
    token = api.get(f"{MAPS}?limit=1").body["metadata"]["continue"]
    create(api, "d")
    api.server.storage.compact(api.server.storage.revision)
    refused = api.get(f"{MAPS}?limit=1&continue={token}")
    assert refused.body["reason"] == "Expired"
    again = refused.body["metadata"]["continue"]
    assert names(api.get(f"{MAPS}?continue={again}").body) == ["b", "c", "d"]


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("x=1", ["a"]),
        ("x!=1", ["b", "c"]),
        ("x", ["a", "b"]),
        ("!x", ["c"]),
        ("x in (1,2)", ["a", "b"]),
        ("x notin (1)", ["b", "c"]),
    ],
)
def test_labels_select(api: LocalClient, selector: str, selected: list[str]) -> None:
    create(api, "a", x="1")
    create(api, "b", x="2")
    create(api, "c")
    assert names(api.get(f"{MAPS}?labelSelector={selector.replace(' ', '%20')}").body) == selected


def test_fields_select(api: LocalClient) -> None:
    create(api, "a")
    create(api, "b")
    assert names(api.get(f"{MAPS}?fieldSelector=metadata.name%3Db").body) == ["b"]
    assert (
        api.get(f"{RESERVATIONS}?fieldSelector=spec.priority%3D1").message
        == "field label not supported: spec.priority"
    )


def test_a_version_of_the_future_is_refused(api: LocalClient) -> None:
    assert (
        api.get(f"{MAPS}?resourceVersion=99999").body["details"]["causes"][0]["reason"]
        == "ResourceVersionTooLarge"
    )


def test_a_watch_goes_on_from_a_version(api: LocalClient) -> None:
    version = create(api, "a")["metadata"]["resourceVersion"]
    api.patch(f"{MAPS}/a", {"data": {"k": "v"}})
    watch = api.watch(f"{MAPS}?watch=1&resourceVersion={version}")
    api.delete(f"{MAPS}/a")
    assert [each["type"] for each in events_of(watch)] == ["MODIFIED", "DELETED"]


def test_a_watch_without_a_version_begins_with_all_objects(api: LocalClient) -> None:
    create(api, "a")
    watch = api.watch(f"{MAPS}?watch=1&allowWatchBookmarks=true")
    added, bookmark = events_of(watch)
    assert added["type"] == "ADDED"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_an_object_enters_and_leaves_a_selected_watch(api: LocalClient) -> None:
    create(api, "a")
    watch = api.watch(f"{MAPS}?watch=1&labelSelector=x&resourceVersion={api.server.storage.revision}")
    api.patch(f"{MAPS}/a", {"metadata": {"labels": {"x": "1"}}})
    last = api.patch(f"{MAPS}/a", {"metadata": {"labels": {"x": None}}}).body
    entered, left = events_of(watch)
    assert (entered["type"], left["type"]) == ("ADDED", "DELETED")
    assert left["object"]["metadata"]["labels"] == {"x": "1"}
    assert left["object"]["metadata"]["resourceVersion"] == last["metadata"]["resourceVersion"]


def test_a_compacted_version_ends_a_watch_with_410(api: LocalClient) -> None:
    version = create(api, "a")["metadata"]["resourceVersion"]
    create(api, "b")
    api.server.storage.compact(api.server.storage.revision)
    watch = api.watch(f"{MAPS}?watch=1&resourceVersion={version}")
    (error,) = events_of(watch)
    assert (error["type"], error["object"]["code"], watch.closed) == ("ERROR", 410, True)


def test_a_bookmark_has_the_newest_version(api: LocalClient) -> None:
    watch = api.watch(
        f"{MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={api.server.storage.revision}"
    )
    create(api, "a")
    watch.bookmark()
    assert events_of(watch)[-1]["object"]["metadata"]["resourceVersion"] == str(api.server.storage.revision)


def test_events_of_both_groups_are_the_same_objects(api: LocalClient) -> None:
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2027-01-01T00:00:00.000001Z",
        "type": "Normal",
        "reason": "r",
        "action": "a",
        "note": "text",
        "reportingController": "c",
        "reportingInstance": "i",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    assert api.create("/apis/events.k8s.io/v1/namespaces/default/events", event).body["note"] == "text"
    core = api.get("/api/v1/namespaces/default/events/e").body
    assert (core["message"], core["involvedObject"]["name"]) == ("text", "p")
