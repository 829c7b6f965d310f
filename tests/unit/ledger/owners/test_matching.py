"""Which locks are a pod's own."""

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


def test_a_pod_is_known_by_its_name() -> None:
    by_name = spec({"pod": {"name": "web-0"}})
    assert owns(by_name, pod("web-0"))
    assert not owns(by_name, pod("web-00"))


def test_a_service_account_is_no_label() -> None:
    """Who may only edit pods can label one, and can't change what it runs as."""
    robot = spec({**WEB_APP, "serviceAccountName": "robot"})
    assert owns(robot, pod("web-0", labels={"app": "web"}, serviceAccountName="robot"))
    assert not owns(robot, pod("web-0", labels={"app": "web", "serviceAccountName": "robot"}))
    assert not owns(robot, pod("web-0", labels={"app": "web"}, serviceAccountName="default"))
    assert owns(spec({"serviceAccountName": "robot"}), pod("any", serviceAccountName="robot"))


def test_any_term_is_enough() -> None:
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
def test_a_controller_is_known_by_its_version_kind_and_name(controller: str, expected: bool) -> None:
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


def test_nothing_but_a_deployment_owns_pods_through_a_replica_set() -> None:
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


def test_all_locks_of_a_pod_are_found_by_name_each_once() -> None:
    by_name = {"pod": {"name": "web-0"}}
    owners = index(
        c=spec(by_name), a=spec(WEB_APP, by_name, by_name), b=spec(WEB_APP), d=spec({"pod": {"name": "x"}})
    )
    assert names(owners, labels={"app": "web"}) == ["a", "b", "c"]
    assert names(owners) == ["a", "c"]


def test_pods_of_other_namespaces_own_nothing() -> None:
    owners = index(a=spec({"pod": {"name": "web-0"}}), b=spec(WEB_APP))
    assert names(owners, labels={"app": "web"}, namespace="elsewhere") == []


def test_other_owners_replace_the_first() -> None:
    owners = index(a=spec({"pod": {"name": "web-0"}}))
    owners.put(Key(NAMESPACE, "a"), spec(WEB_APP))
    assert names(owners) == []
    assert names(owners, "other", labels={"app": "web"}) == ["a"]


def test_the_same_owners_change_nothing() -> None:
    owners = index(a=spec(WEB_APP))
    owners.put(Key(NAMESPACE, "a"), spec(WEB_APP))
    assert names(owners, labels={"app": "web"}) == ["a"]


def test_a_discarded_lock_is_not_found_and_its_like_still_are() -> None:
    by_name = {"pod": {"name": "web-0"}}
    owners = index(a=spec(by_name, WEB_APP), b=spec(by_name))
    owners.discard(Key(NAMESPACE, "a"))
    assert names(owners, labels={"app": "web"}) == ["b"]
    owners.discard(Key(NAMESPACE, "b"))
    owners.discard(Key(NAMESPACE, "never there"))
    assert names(owners, labels={"app": "web"}) == []


def test_nothing_is_kept_for_names_of_pods_that_no_lock_has() -> None:
    owners = index(a=spec({"pod": {"name": "web-0"}}, {"pod": {"name": "web-1"}}))
    owners.discard(Key(NAMESPACE, "a"))
    names(owners)
    assert not owners._by_key


def test_of_many_locks_that_share_a_label_one_is_tried() -> None:
    """All that had a label in common, the first by its name, were tried for each pod."""
    selectors = [{"selector": {"matchLabels": {"app": "web", "number": str(n)}}} for n in range(100)]
    owners = index(**{f"lock-{n}": spec(term) for n, term in enumerate(selectors)})
    owner = pod(labels={"app": "web", "number": "50"})
    assert len(owners._candidates(owner)) == 2  # the first lock has the label that was not common yet
    assert owners.of(owner) == [Key(NAMESPACE, "lock-50")]


def test_pods_that_are_alike_are_compared_with_many_selectors_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pod was compared four times until it was told what it waits for: 0.5 s beside 5,000 selectors."""
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
    """It was read again for each pod: 256 expressions of each of 5,000 locks."""
    web = spec(expression("In", "front"))
    selector = web.owners[0].selector
    assert selector is not None
    assert selector.read is selector.read
    assert owns(web, pod(labels={"tier": "front"}))
