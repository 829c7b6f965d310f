"""Small clusters and pods, made from a seed, about which both kube-scheduler and Tidelock decide.

Most nodes of a scenario differ from the others in one way only, so that each rule decides alone somewhere.
All objects of a scenario have its name, and its pods can run on its own nodes only. So many scenarios can
share one API server.
"""

from collections.abc import Callable
from random import Random

from differential.profiles import NAMES
from differential.resizes import add_resizes
from differential.scenario import FINALIZER, SCENARIO, UPSTREAM, ZONE, Json, Scenario
from differential.volumes import add_volumes

HOSTNAME = "kubernetes.io/hostname"
GPU = "example.com/gpu"
MIB = 1024 * 1024

IMAGES = {"example.org/web:v1": 400 * MIB, "example.org/db:latest": 900 * MIB, "example.org/tiny:v1": 9 * MIB}
APPS = ("web", "db", "cache")


def make_scenario(seed: int, plugins: frozenset[str], pods: int) -> Scenario:
    """Build a scenario, where features of other plugins are left out and all else stays the same."""
    rng = Random(seed)  # noqa: S311 -- to be repeatable
    scenario = Scenario(seed)
    name = scenario.name
    scenario.namespaces = [
        {"metadata": {"name": name, "labels": {"team": "a", SCENARIO: name}}},
        {"metadata": {"name": f"{name}-b", "labels": {"team": "b", SCENARIO: name}}},
    ]
    if rng.random() < 0.3:
        selector = {"app": rng.choice(APPS)}
        scenario.services = [
            {
                "metadata": {"name": "service", "namespace": name},
                "spec": {"selector": selector, "ports": [{"port": 80}]},
            }
        ]
    template = _node(rng, name)
    for index in range(rng.choice((3, 3, 4, 4, 5, 6, 8, 12))):
        scenario.nodes.append(_varied_node(rng, template, f"{name}-{chr(ord('a') + index)}"))
    write = _PodWriter(rng, scenario, plugins)
    for node in scenario.nodes:
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            scenario.residents.append(write.resident(node["metadata"]["name"]))
    scenario.wanting = [write.wanting(index) for index in range(pods)]
    _choose_profiles(scenario)
    _let_some_leave(scenario)
    add_resizes(scenario)
    if "VolumeBinding" in plugins:
        add_volumes(scenario)
    return scenario


def _choose_profiles(scenario: Scenario) -> None:
    rng = Random(f"{scenario.seed} profiles")  # noqa: S311 -- to be repeatable
    for pod in scenario.wanting:
        pod["spec"]["schedulerName"] = rng.choice((*NAMES[:1], *NAMES))


def _let_some_leave(scenario: Scenario) -> None:
    rng = Random(f"{scenario.seed} leaving")  # noqa: S311 -- to be repeatable
    for pod in scenario.residents:
        if rng.random() < 0.1:
            pod["metadata"]["finalizers"] = [FINALIZER]


def _node(rng: Random, scenario: str) -> Json:
    size = {
        "cpu": rng.choice(("2", "4", "4", "7500m")),
        "memory": rng.choice(("4Gi", "8Gi", "10G")),
        "pods": "10",
        "ephemeral-storage": "20Gi",
    }
    labels = {SCENARIO: scenario, ZONE: "a", "disk": "ssd", "generation": "3"}
    return {"labels": labels, "size": size, "taints": [], "images": {}, "unschedulable": False}


def _varied_node(rng: Random, template: Json, name: str) -> Json:
    node = {key: value.copy() if hasattr(value, "copy") else value for key, value in template.items()}
    node["labels"][HOSTNAME] = name
    node["labels"][ZONE] = rng.choice("ab")
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 3))):
        rng.choice(_CHANGES)(rng, node)
    images = [{"names": [image], "sizeBytes": size} for image, size in node["images"].items()]
    return {
        "metadata": {"name": name, "labels": node["labels"]},
        "spec": {"taints": node["taints"], "unschedulable": node["unschedulable"]},
        "status": {
            "allocatable": node["size"],
            "capacity": node["size"],
            "images": images,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Test"}],
        },
    }


def _resize(resource: str, *amounts: str) -> Callable[[Random, Json], None]:
    return lambda rng, node: node["size"].update({resource: rng.choice(amounts)})


def _relabel(key: str, *values: str | None) -> Callable[[Random, Json], None]:
    def change(rng: Random, node: Json) -> None:
        value = rng.choice(values)
        node["labels"].pop(key, None)
        if value is not None:
            node["labels"][key] = value

    return change


def _taint(rng: Random, node: Json) -> None:
    key = rng.choice(("dedicated", "spot", "old"))
    effect = rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule"))
    if all((each["key"], each["effect"]) != (key, effect) for each in node["taints"]):
        node["taints"].append({"key": key, "value": rng.choice(("", "x")), "effect": effect})


def _cordon(rng: Random, node: Json) -> None:
    del rng
    node["unschedulable"] = True


def _pull(rng: Random, node: Json) -> None:
    image = rng.choice(sorted(IMAGES))
    node["images"][image] = IMAGES[image]


_CHANGES: tuple[Callable[[Random, Json], None], ...] = (
    _resize("cpu", "1", "3", "16"),
    _resize("memory", "2Gi", "6000000000", "32Gi"),
    _resize("pods", "0", "1", "2"),
    _resize("ephemeral-storage", "1Gi", "0"),
    _resize(GPU, "1", "4"),
    _relabel(ZONE, None, "c"),
    _relabel("disk", None, "hdd"),
    _relabel("generation", None, "4", "x", "0x4"),
    _relabel("rack", "1", "2"),
    _relabel(HOSTNAME, None),
    _taint,
    _taint,
    _taint,
    _cordon,
    _pull,
    _pull,
)


class _PodWriter:
    """A writer of pods, which draws every choice, even for a feature that is left out in the end."""

    def __init__(self, rng: Random, scenario: Scenario, plugins: frozenset[str]) -> None:
        self._rng = rng
        self._scenario = scenario
        self._plugins = plugins
        self._residents = 0

    def resident(self, node_name: str) -> Json:
        """Write a pod that is bound already."""
        self._residents += 1
        rng = self._rng
        namespace = self._scenario.name + rng.choice(("", "", "", "-b"))
        affinity = self._affinity(0.15) if rng.random() < 0.5 else {}
        pod = self._pod(f"resident-{self._residents}", namespace, affinity | {"nodeAffinity": None})
        pod["spec"]["nodeName"] = node_name
        pod["spec"]["tolerations"] = [{"operator": "Exists"}]
        return pod

    def wanting(self, index: int) -> Json:
        """Write a pod for the schedulers to decide."""
        rng = self._rng
        pod = self._pod(f"wanting-{index}", self._scenario.name, self._affinity(0.2))
        spec = pod["spec"]
        spec["nodeSelector"] = {SCENARIO: self._scenario.name}
        if rng.random() < 0.15:
            spec["nodeSelector"]["disk"] = rng.choice(("ssd", "hdd"))
        spec["tolerations"] = [self._toleration() for _ in range(rng.choice((0, 0, 1, 1, 2)))]
        constraints = [self._constraint() for _ in range(rng.choice((0, 0, 0, 1, 1, 2)))]
        unique = {(each["topologyKey"], each["whenUnsatisfiable"]): each for each in constraints}
        if "PodTopologySpread" in self._plugins:
            spec["topologySpreadConstraints"] = [*unique.values()]
        return pod

    def _pod(self, name: str, namespace: str, affinity: Json) -> Json:
        rng = self._rng
        labels = {"app": rng.choice(APPS), "version": rng.choice(("1", "2"))}
        spec: Json = {
            "schedulerName": UPSTREAM,
            "terminationGracePeriodSeconds": 0,
            "hostNetwork": rng.random() < 0.05,
            "containers": [self._container(f"main-{index}") for index in range(rng.choice((1, 1, 1, 2)))],
            "initContainers": [self._container("init")] if rng.random() < 0.15 else [],
            "affinity": {key: value for key, value in affinity.items() if value},
        }
        if spec["initContainers"] and rng.random() < 0.5:
            spec["initContainers"][0]["restartPolicy"] = "Always"
        if rng.random() < 0.05:
            spec["resources"] = {"requests": {"cpu": "3", "memory": "4Gi"}}
            for container in (*spec["containers"][1:], *spec["initContainers"]):
                container["resources"] = {}  # the API requires that pod-level requests cover the sum
        if rng.random() < 0.05:
            spec["volumes"] = [{"name": "model", "image": {"reference": rng.choice(sorted(IMAGES))}}]
        _make_ports_unique(spec)
        return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}

    def _container(self, name: str) -> Json:
        rng = self._rng
        requests = {}
        for resource, odds, amounts in (
            ("cpu", 0.7, ("0", "100m", "500m", "1", "1500m", "2")),
            ("memory", 0.6, ("0", "64Mi", "1G", "1500Mi", "3Gi")),
            ("ephemeral-storage", 0.1, ("500Mi", "2Gi")),
            (GPU, 0.08, ("1", "2")),
        ):
            if rng.random() < odds:
                requests[resource] = rng.choice(amounts)
        container: Json = {
            "name": name,
            "image": rng.choice(("example.org/web:v1", "example.org/db", "example.org/tiny:v1", "other")),
            "resources": {"requests": requests},
        }
        if GPU in requests:
            container["resources"]["limits"] = {GPU: requests[GPU]}
        if rng.random() < 0.15:
            container["ports"] = [
                {
                    "containerPort": 80,
                    "hostPort": rng.choice((8080, 8081)),
                    "hostIP": rng.choice(("", "", "10.0.0.1", "10.0.0.2")),
                    "protocol": rng.choice(("TCP", "TCP", "UDP")),
                }
            ]
        return container

    def _toleration(self) -> Json:
        rng = self._rng
        if rng.random() < 0.15:
            return {"operator": "Exists"}
        keys = ("dedicated", "spot", "old", "node.kubernetes.io/unschedulable")
        toleration = {"key": rng.choice(keys), "operator": rng.choice(("Exists", "Equal"))}
        if toleration["operator"] == "Equal":
            toleration["value"] = rng.choice(("", "x"))
        effect = rng.choice(("", "", "NoSchedule", "PreferNoSchedule", "NoExecute"))
        return toleration | ({"effect": effect} if effect else {})

    def _affinity(self, odds: float) -> Json:
        rng = self._rng
        affinity: Json = {}
        node_affinity: Json = {}
        if rng.random() < odds:
            terms = [self._node_term() for _ in range(rng.choice((1, 1, 2)))]
            node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if rng.random() < odds:
            node_affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": rng.choice((1, 7, 50, 100)), "preference": self._node_term()}
                for _ in range(rng.choice((1, 1, 2, 3)))
            ]
        affinity["nodeAffinity"] = node_affinity
        for kind in ("podAffinity", "podAntiAffinity"):
            wished: Json = {}
            if rng.random() < odds:
                wished["requiredDuringSchedulingIgnoredDuringExecution"] = [
                    self._pod_term() for _ in range(rng.choice((1, 1, 2)))
                ]
            if rng.random() < odds:
                wished["preferredDuringSchedulingIgnoredDuringExecution"] = [
                    {"weight": rng.choice((1, 10, 100)), "podAffinityTerm": self._pod_term()}
                    for _ in range(rng.choice((1, 1, 2)))
                ]
            if "InterPodAffinity" in self._plugins:
                affinity[kind] = wished
        return affinity

    def _node_term(self) -> Json:
        rng = self._rng
        if rng.random() < 0.15:
            names = [f"{self._scenario.name}-{letter}" for letter in rng.sample("abcz", rng.choice((1, 2)))]
            operator = rng.choice(("In", "In", "NotIn"))
            names = names if operator == "In" else names[:1]
            names = names[:1]  # the API accepts one name only
            return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": names}]}
        return {"matchExpressions": [self._node_expression() for _ in range(rng.choice((1, 1, 2)))]}

    def _node_expression(self) -> Json:
        rng = self._rng
        operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        if operator in ("Gt", "Lt"):
            return {"key": "generation", "operator": operator, "values": [rng.choice(("2", "3", "4"))]}
        key, values = rng.choice(((ZONE, ("a", "b", "c")), ("disk", ("ssd", "hdd")), ("rack", ("1", "2"))))
        if operator in ("Exists", "DoesNotExist"):
            return {"key": key, "operator": operator}
        return {"key": key, "operator": operator, "values": rng.sample(values, rng.choice((1, 2)))}

    def _pod_term(self) -> Json:
        rng = self._rng
        term: Json = {"topologyKey": rng.choice((ZONE, ZONE, HOSTNAME, "rack")), **self._selector()}
        where = rng.random()
        if where < 0.15:
            term["namespaces"] = [f"{self._scenario.name}-b"]
        elif where < 0.3:
            labels = {SCENARIO: self._scenario.name} | rng.choice(({}, {"team": "b"}))
            term["namespaceSelector"] = {"matchLabels": labels}
        if rng.random() < 0.15 and "labelSelector" in term:
            term[rng.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["version"]
        return term

    def _constraint(self) -> Json:
        rng = self._rng
        constraint: Json = {
            "maxSkew": rng.choice((1, 1, 2, 3)),
            "topologyKey": rng.choice((ZONE, ZONE, HOSTNAME, "rack")),
            "whenUnsatisfiable": rng.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
            **self._selector(),
        }
        min_domains, match_version = rng.choice((None, None, 1, 2, 4)), rng.random() < 0.15
        if min_domains is not None and constraint["whenUnsatisfiable"] == "DoNotSchedule":
            constraint["minDomains"] = min_domains
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            value = rng.choice((None, None, "Honor", "Ignore"))
            if value is not None:
                constraint[policy] = value
        if match_version and "labelSelector" in constraint:
            constraint["matchLabelKeys"] = ["version"]
        return constraint

    def _selector(self) -> Json:
        rng = self._rng
        app = rng.choice(APPS)
        kind = rng.random()
        if kind < 0.6:
            return {"labelSelector": {"matchLabels": {"app": app}}}
        if kind < 0.85:
            expression = {"key": "app", "operator": rng.choice(("In", "NotIn")), "values": [app]}
            return {"labelSelector": {"matchExpressions": [expression]}}
        return {"labelSelector": {}} if kind < 0.95 else {}


def _make_ports_unique(spec: Json) -> None:
    """Keep the first container's ports only, because the API refuses a pod with conflicting ports."""
    containers = [*spec["containers"], *spec["initContainers"]]
    for container in containers[1:]:
        container.pop("ports", None)
    if spec["hostNetwork"]:
        for port in containers[0].get("ports", ()):
            port["containerPort"] = port["hostPort"]
