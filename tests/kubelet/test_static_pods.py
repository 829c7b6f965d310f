"""Static pods, which a kubelet runs and then reports as mirror pods."""

import yaml

from kubelet.stage import Stage


def test_a_static_pod_that_takes_reserved_capacity_violates_the_reservation_until_it_ends(
    stage: Stage,
) -> None:
    node = stage.kubelet_node()
    reservation = stage.active_reservation(cpu="600m", node=node)
    containers = [{"name": "main", "image": "example.org/none", "resources": {"requests": {"cpu": "700m"}}}]
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "static", "namespace": stage.namespace},
        "spec": {"containers": containers, "terminationGracePeriodSeconds": 0},
    }
    file = node.kubelet.static_pods / "static.yaml"
    file.write_text(yaml.safe_dump(manifest))
    told = reservation.until_condition("Violated", "True", "CapacityTaken")["message"]
    assert f"pod {stage.namespace}/static-{node.name} took cpu" in told
    assert reservation.status()["resources"] == {"cpu": "300m"}

    file.unlink()
    reservation.until_condition("Active", "True", "Restored")
    assert reservation.status()["resources"] == {"cpu": "600m"}
