import pytest

from tidelock.kube.client import EVENTS, NODES, PODS, RESERVATIONS, WATERLEVELS


def test_paths_of_collections() -> None:
    assert PODS.collection() == "/api/v1/pods"
    assert PODS.collection("shop") == "/api/v1/namespaces/shop/pods"
    assert NODES.collection("ignored") == "/api/v1/nodes"
    assert EVENTS.collection("shop") == "/apis/events.k8s.io/v1/namespaces/shop/events"


def test_paths_of_items() -> None:
    assert PODS.item("web-0", "shop", "binding") == "/api/v1/namespaces/shop/pods/web-0/binding"
    assert NODES.item("n1", subresource="status") == "/api/v1/nodes/n1/status"
    assert WATERLEVELS.item("hot") == "/apis/tidelock.dev/v1alpha1/waterlevels/hot"
    assert (
        RESERVATIONS.item("web-0", "shop") == "/apis/tidelock.dev/v1alpha1/namespaces/shop/reservations/web-0"
    )


def test_names_are_escaped_in_paths() -> None:
    assert NODES.item("../pods?x#y z") == "/api/v1/nodes/..%2Fpods%3Fx%23y%20z"


def test_a_namespaced_item_needs_a_namespace() -> None:
    with pytest.raises(ValueError, match="pods are namespaced: no namespace for 'web-0'"):
        PODS.item("web-0")
