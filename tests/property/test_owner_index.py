"""The index of owners finds the same reservations as a scan of all of them."""

from itertools import chain
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from builders import NAMESPACE, pod, reservation
from tidelock.ledger.owners import matching
from tidelock.ledger.owners.matching import OwnerIndex, names, owners_among, owns
from tidelock.model.api.owners import CONSUMED_REQUEST
from tidelock.model.api.reservation import ReservationSpec
from tidelock.model.meta import Key

NAMES = st.sampled_from(["web", "web-1", "web-5d9"])
LABELS = st.dictionaries(
    st.sampled_from(["app", "tier", "pod-template-hash"]), st.sampled_from(["web", "5d9"])
)
CONTROLLERS = st.tuples(st.sampled_from(["ReplicaSet", "Deployment", "StatefulSet"]), NAMES)
EXPRESSIONS = st.sampled_from(
    [
        {"key": "app", "operator": "Exists"},
        {"key": "app", "operator": "In", "values": ["web", "5d9"]},
        {"key": "tier", "operator": "NotIn", "values": ["web"]},
        {"key": "tier", "operator": "DoesNotExist"},
    ]
)
TERMS = st.fixed_dictionaries(
    {},
    optional={
        "serviceAccountName": NAMES,
        "provisioningRequest": NAMES.map(lambda name: {"name": name}),
        "pod": NAMES.map(lambda name: {"name": name}),
        "controller": CONTROLLERS.map(lambda c: {"apiVersion": "apps/v1", "kind": c[0], "name": c[1]}),
        "selector": st.one_of(
            LABELS.filter(bool).map(lambda labels: {"matchLabels": labels}),
            st.lists(EXPRESSIONS, min_size=1, max_size=2).map(lambda some: {"matchExpressions": some}),
        ),
    },
).filter(bool)


def owners(terms: list[dict[str, Any]]) -> ReservationSpec:
    spec = reservation("lock", owners=terms).spec
    assert spec is not None
    return spec


@given(
    reservations=st.lists(
        st.tuples(st.integers(0, 5), st.one_of(st.none(), st.lists(TERMS, min_size=1, max_size=3))),
        max_size=12,
    ),
    name=NAMES,
    labels=LABELS,
    controller=st.one_of(st.none(), CONTROLLERS),
    account=NAMES | st.just(""),
    request=NAMES | st.just(""),
    few=st.sampled_from([0, 64]),
)
def test_the_index_finds_exactly_the_reservations_that_the_pod_owns(
    reservations: list[tuple[int, list[dict[str, Any]] | None]],
    name: str,
    labels: dict[str, str],
    controller: tuple[str, str] | None,
    account: str,
    request: str,
    few: int,
) -> None:
    index, kept = OwnerIndex(), dict[Key, ReservationSpec]()
    identity = {
        "labels": labels,
        "controller": f"apps/v1/{controller[0]}/{controller[1]}" if controller else "",
        "serviceAccountName": account,
        "annotations": {CONSUMED_REQUEST: request} if request else {},
    }
    owner, like_it = pod(name, **identity), pod("like-it", **identity)
    with patch.object(matching, "_FEW", few):
        for number, terms in reservations:
            key = Key(NAMESPACE, f"lock-{number}")
            if terms is None:
                index.discard(key)
                kept.pop(key, None)
            else:
                kept[key] = owners(terms)
                index.put(key, kept[key])
            assert index.of(like_it) == sorted(key for key, spec in kept.items() if owns(spec, like_it))

        own = {key for key, spec in kept.items() if owns(spec, owner)}
        for_any = {key for key in own if not names(kept[key], owner)}
        assert index.of(owner) == sorted(own)
        assert index.of(owner, special_only=True) == sorted(own - for_any)
        assert sorted(chain.from_iterable(index.for_any(owner))) == sorted(for_any)


@given(
    terms=st.lists(TERMS, min_size=1, max_size=3),
    pods=st.lists(
        st.tuples(NAMES, LABELS, st.one_of(st.none(), CONTROLLERS), NAMES | st.just(""), NAMES), max_size=8
    ),
)
def test_the_owners_among_many_pods_are_the_same_as_for_one_pod_at_a_time(
    terms: list[dict[str, Any]], pods: list[tuple[str, dict[str, str], tuple[str, str] | None, str, str]]
) -> None:
    spec = owners(terms)
    many = [
        pod(
            name,
            uid=f"uid-{number}",
            labels=labels,
            controller=f"apps/v1/{controller[0]}/{controller[1]}" if controller else "",
            serviceAccountName=account,
            annotations={CONSUMED_REQUEST: request},
        )
        for number, (name, labels, controller, account, request) in enumerate(pods)
    ]

    assert owners_among(spec, many) == {each.uid for each in many if owns(spec, each)}
