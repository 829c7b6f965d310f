"""The match between pods and the owners of reservations."""

from typing import Any

import pytest

from builders import NAMESPACE, Json, pod, reservation
from tidelock.ledger.owners import matching
from tidelock.ledger.owners.matching import OwnerIndex, owns
from tidelock.model.api.owners import Owner
from tidelock.model.api.reservation import ReservationSpec
from tidelock.model.meta import Key
from tidelock.model.pods import Pod

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
STATEFUL_SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}
WEB_APP = {"selector": {"matchLabels": {"app": "web"}}}


def spec(*owners: Json) -> ReservationSpec:
    read = reservation(owners=list(owners)).spec
    assert read is not None
    return read


def expression(operator: str, *values: str) -> Json:
    wanted = {"key": "tier", "operator": operator} | ({"values": list(values)} if values else {})
    return {"selector": {"matchExpressions": [wanted]}}


def test_a_pod_owner_matches_by_name() -> None:
    by_name = spec({"pod": {"name": "web-0"}})
    assert owns(by_name, pod("web-0"))
    assert not owns(by_name, pod("web-00"))


def test_a_service_account_is_not_matched_by_labels() -> None:
    """Check that a label does not count. A client can label a pod, but not change its service account."""
    robot = spec({**WEB_APP, "serviceAccountName": "robot"})
    assert owns(robot, pod("web-0", labels={"app": "web"}, serviceAccountName="robot"))
    assert not owns(robot, pod("web-0", labels={"app": "web", "serviceAccountName": "robot"}))
    assert not owns(robot, pod("web-0", labels={"app": "web"}, serviceAccountName="default"))
    assert owns(spec({"serviceAccountName": "robot"}), pod("any", serviceAccountName="robot"))


def test_the_consumers_of_a_request_are_matched_by_their_annotation_alone() -> None:
    consumers = spec({"provisioningRequest": {"name": "job-1"}})
    key = "autoscaling.x-k8s.io/consume-provisioning-request"
    assert owns(consumers, pod(annotations={key: "job-1"}))
    assert not owns(consumers, pod(annotations={key: "job-2"}))
    assert not owns(consumers, pod(labels={key: "job-1"}))
    assert not owns(consumers, pod("job-1"))


def test_a_consumer_of_a_request_needs_the_service_account_of_its_term() -> None:
    consumers = spec({"provisioningRequest": {"name": "job-1"}, "serviceAccountName": "robot"})
    annotations = {"autoscaling.x-k8s.io/consume-provisioning-request": "job-1"}
    assert owns(consumers, pod(annotations=annotations, serviceAccountName="robot"))
    assert not owns(consumers, pod(annotations=annotations, serviceAccountName="default"))


def test_one_matching_owner_term_is_enough() -> None:
    either = spec({"pod": {"name": "web-0"}}, WEB_APP)
    assert owns(either, pod("web-0"))
    assert owns(either, pod("other", labels={"app": "web"}))
    assert not owns(either, pod("other", labels={"app": "db"}))


def test_all_fields_of_a_term_must_match() -> None:
    every = spec({"pod": {"name": "web-0"}, "controller": STATEFUL_SET} | WEB_APP)
    fitting: dict[str, Any] = {
        "name": "web-0",
        "controller": "apps/v1/StatefulSet/web",
        "labels": {"app": "web"},
    }
    assert owns(every, pod(**fitting))
    assert not owns(every, pod(**fitting | {"name": "web-1"}))
    assert not owns(every, pod(**fitting | {"controller": "apps/v1/StatefulSet/db"}))
    assert not owns(every, pod(**fitting | {"labels": {}}))


@pytest.mark.parametrize(
    ("controller", "expected"),
    [
        ("apps/v1/StatefulSet/web", True),
        ("apps/v1/StatefulSet/db", False),
        ("apps/v1/DaemonSet/web", False),
        ("apps.kruise.io/v1/StatefulSet/web", False),
        ("", False),
    ],
)
def test_a_controller_matches_by_api_version_kind_and_name(controller: str, expected: bool) -> None:
    assert owns(spec({"controller": STATEFUL_SET}), pod(controller=controller)) is expected


@pytest.mark.parametrize(
    ("controller", "template_hash", "expected"),
    [
        ("apps/v1/ReplicaSet/web-5d4f", "5d4f", True),
        ("apps/v1/ReplicaSet/web-api-5d4f", "5d4f", False),
        ("apps/v1/ReplicaSet/web-5d4f", "other", False),
        ("apps/v1/ReplicaSet/web-5d4f", None, False),
        ("apps/v2/ReplicaSet/web-5d4f", "5d4f", False),
        ("apps/v1/Job/web-5d4f", "5d4f", False),
    ],
)
def test_a_deployment_owns_the_pods_of_its_replica_sets(
    controller: str, template_hash: str | None, expected: bool
) -> None:
    labels = {"pod-template-hash": template_hash} if template_hash else {}
    assert owns(spec({"controller": DEPLOYMENT}), pod(controller=controller, labels=labels)) is expected


def test_only_a_deployment_owns_pods_through_a_replica_set() -> None:
    of_a_replica_set = pod(controller="apps/v1/ReplicaSet/web-5d4f", labels={"pod-template-hash": "5d4f"})
    assert not owns(spec({"controller": STATEFUL_SET}), of_a_replica_set)


@pytest.mark.parametrize(
    ("term", "matching", "other"),
    [
        (expression("In", "front", "back"), {"tier": "back"}, {}),
        (expression("NotIn", "front"), {}, {"tier": "front"}),
        (expression("Exists"), {"tier": ""}, {}),
        (expression("DoesNotExist"), {}, {"tier": "front"}),
    ],
)
def test_selectors_may_have_expressions(term: Json, matching: dict[str, str], other: dict[str, str]) -> None:
    assert owns(spec(term), pod(labels=matching))
    assert not owns(spec(term), pod(labels=other))


def index(**reservations: ReservationSpec) -> OwnerIndex:
    made = OwnerIndex()
    for name, each in reservations.items():
        made.put(Key(NAMESPACE, name), each)
    return made


def names(owners: OwnerIndex, name: str = "web-0", **fields: Any) -> list[str]:
    return [key.name for key in owners.of(pod(name, **fields))]


def test_all_reservations_of_a_pod_are_returned_once_each_by_name() -> None:
    by_name = {"pod": {"name": "web-0"}}
    owners = index(
        c=spec(by_name), a=spec(WEB_APP, by_name, by_name), b=spec(WEB_APP), d=spec({"pod": {"name": "x"}})
    )
    assert names(owners, labels={"app": "web"}) == ["a", "b", "c"]
    assert names(owners) == ["a", "c"]


def test_pods_of_other_namespaces_own_nothing() -> None:
    owners = index(a=spec({"pod": {"name": "web-0"}}), b=spec(WEB_APP))
    assert names(owners, labels={"app": "web"}, namespace="elsewhere") == []


def test_new_owners_replace_the_former_owners() -> None:
    owners = index(a=spec({"pod": {"name": "web-0"}}))
    owners.put(Key(NAMESPACE, "a"), spec(WEB_APP))
    assert names(owners) == []
    assert names(owners, "other", labels={"app": "web"}) == ["a"]


def test_the_same_owners_change_nothing() -> None:
    owners = index(a=spec(WEB_APP))
    owners.put(Key(NAMESPACE, "a"), spec(WEB_APP))
    assert names(owners, labels={"app": "web"}) == ["a"]


def test_a_discarded_reservation_is_not_found_and_others_with_its_owners_still_are() -> None:
    by_name = {"pod": {"name": "web-0"}}
    owners = index(a=spec(by_name, WEB_APP), b=spec(by_name))
    owners.discard(Key(NAMESPACE, "a"))
    assert names(owners, labels={"app": "web"}) == ["b"]
    owners.discard(Key(NAMESPACE, "b"))
    owners.discard(Key(NAMESPACE, "never there"))
    assert names(owners, labels={"app": "web"}) == []


def test_nothing_is_kept_for_pod_names_without_a_reservation() -> None:
    owners = index(a=spec({"pod": {"name": "web-0"}}, {"pod": {"name": "web-1"}}))
    owners.discard(Key(NAMESPACE, "a"))
    names(owners)
    assert not owners._by_key


def test_reservations_that_share_a_label_are_indexed_by_another_label() -> None:
    """Guard against a comparison of each pod with all reservations that share their first label."""
    selectors = [{"selector": {"matchLabels": {"app": "web", "number": str(n)}}} for n in range(100)]
    owners = index(**{f"lock-{n}": spec(term) for n, term in enumerate(selectors)})
    owner = pod(labels={"app": "web", "number": "50"})
    assert len(owners._candidates(owner)) == 2  # the label of the first reservation was not common at first
    assert owners.of(owner) == [Key(NAMESPACE, "lock-50")]


def test_equal_pods_are_compared_with_many_selectors_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard against four comparisons of each pod before its message: 0.5 s with 5,000 selectors."""
    selectors = [{"matchExpressions": [{"key": f"k-{n}", "operator": "DoesNotExist"}]} for n in range(100)]
    owners = index(**{f"lock-{n}": spec({"selector": each}) for n, each in enumerate(selectors)})
    compared: list[str] = []
    matches = matching._term_matches

    def counted(term: Owner, each: Pod) -> bool:
        compared.append(each.meta.name)
        return matches(term, each)

    monkeypatch.setattr(matching, "_term_matches", counted)
    for name in ("web-0", "web-0", "web-1"):
        assert len(names(owners, name, labels={"app": "web"})) == 100
    assert compared == 100 * ["web-0"]
    owners.discard(Key(NAMESPACE, "lock-0"))
    assert len(names(owners, "web-2", labels={"app": "web"})) == 99
    assert len(names(owners, "web-2", labels={"k-1": "web"})) == 98


def test_an_owner_selector_is_read_once() -> None:
    """Guard against selectors that are parsed for each pod: 256 expressions of each of 5,000 reservations."""
    web = spec(expression("In", "front"))
    selector = web.owners[0].selector
    assert selector is not None
    assert selector.read is selector.read
    assert owns(web, pod(labels={"tier": "front"}))
