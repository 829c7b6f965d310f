"""The pod templates by which autoscalers see the need of nodes."""

from builders import pod, reservation
from tidelock.integrations.autoscalers.placeholder_pods import beside, encoded, placeholder_of


def test_the_placeholder_of_a_reservation_by_amounts_requests_them() -> None:
    made = reservation(
        resources={"cpu": "2", "memory": "1Gi", "example.com/gpu": "1"},
        nodeSelector={"pool": "gpu", "empty": ""},
        tolerations=[{"key": "gpu", "operator": "Exists"}],
    ).pod
    assert made is not None
    requests = {"cpu": "2", "memory": "1Gi", "example.com/gpu": "1"}
    resources = {"requests": requests, "limits": {"example.com/gpu": "1"}}
    assert placeholder_of(made) == {
        "spec": {
            "containers": [{"name": "c0", "image": "placeholder", "resources": resources}],
            "nodeSelector": {"pool": "gpu", "empty": ""},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
        }
    }


def test_the_placeholder_of_a_pod_keeps_sidecars_ports_and_neighbours() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}}
    made = pod(
        labels={"app": "web"},
        initContainers=[
            {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
        ],
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ],
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    )
    placeholder = placeholder_of(made)
    assert placeholder["metadata"] == {"labels": {"app": "web"}}
    spec = placeholder["spec"]
    assert spec["initContainers"] == [
        {
            "name": "init0",
            "image": "placeholder",
            "resources": {"requests": {"cpu": "100m"}},
            "restartPolicy": "Always",
        }
    ]
    # An empty selector selects all pods, an absent one none.
    assert spec["affinity"] == {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert spec["topologySpreadConstraints"] == [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    ]
    assert "volumes" not in spec


def test_labels_make_no_difference_without_a_relation_to_neighbours() -> None:
    first, second = pod(labels={"index": "0"}), pod("web-1", labels={"index": "1"})
    assert encoded(placeholder_of(first)) == encoded(placeholder_of(second))


def test_hosts_are_excluded_from_each_alternative_of_the_required_node_affinity() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    zones = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in ("a", "b")
    ]
    made = pod(affinity={"nodeAffinity": {required: {"nodeSelectorTerms": zones}}})
    excluded = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node-a", "node-b"]}
    template = beside(placeholder_of(made), ["node-a", "node-b"])
    terms = template["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [*zone["matchExpressions"], excluded]} for zone in zones]

    plain = placeholder_of(pod())
    terms = beside(plain, ["node-a"])["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [{**excluded, "values": ["node-a"]}]}]
    assert beside(plain, []) == plain
    assert "affinity" not in plain["spec"]
