"""Claims, volumes and disks for the pods of a scenario, without other changes."""

from random import Random

from differential.scenario import SCENARIO, ZONE, Json, Scenario

_DRIVER = "disks.example.org"
_KINDS = ("pinned", "zoned", "single", "attached", "attached", "missing", "unbound", "disk", "disk")


def add_volumes(scenario: Scenario) -> None:
    """Add volumes to some pods, so that residents and wanting pods share some of them."""
    rng = Random(f"{scenario.seed} volumes")  # noqa: S311 -- to be repeatable
    name = scenario.name
    for node in scenario.nodes:
        if rng.random() < 0.6:
            scenario.csi_nodes.append(_csi_node(node["metadata"]["name"], rng.choice((0, 1, 1, 2))))
    for index in range(3):
        zone = rng.choice("abc")
        expression = {"key": ZONE, "operator": "In", "values": [zone]}
        terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
        _bind(scenario, f"pinned-{index}", {"nodeAffinity": terms})
        _bind(scenario, f"zoned-{index}", {}, labels={ZONE: zone})
        _bind(scenario, f"single-{index}", {}, mode="ReadWriteOncePod")
        handle = {"driver": _DRIVER, "volumeHandle": f"{name}-{index}"}
        _bind(scenario, f"attached-{index}", {"csi": handle})
    scenario.claims.append(_claim(name, "unbound-0", "ReadWriteOnce", ""))
    for pod in (*scenario.residents, *scenario.wanting):
        if rng.random() < 0.3 and pod["metadata"]["namespace"] == name:
            resident = "nodeName" in pod["spec"]
            kinds = [rng.choice(_KINDS) for _ in range(rng.choice((1, 1, 2)))]
            volumes = pod["spec"].setdefault("volumes", [])
            for number, kind in enumerate(kinds):
                if not (resident and kind in ("missing", "unbound")):
                    volumes.append(_volume(f"volume-{number}", kind, rng))
    _drop_unused(scenario)


def _drop_unused(scenario: Scenario) -> None:
    pods = (*scenario.residents, *scenario.wanting)
    volumes = [volume for pod in pods for volume in pod["spec"].get("volumes", ())]
    used = {volume.get("persistentVolumeClaim", {}).get("claimName") for volume in volumes}
    scenario.claims = [each for each in scenario.claims if each["metadata"]["name"] in used]
    bound = {each["spec"].get("volumeName") for each in scenario.claims}
    scenario.volumes = [each for each in scenario.volumes if each["metadata"]["name"] in bound]


def _volume(name: str, kind: str, rng: Random) -> Json:
    index = rng.choice((0, 1, 2))
    read_only = rng.random() < 0.3
    if kind == "disk":
        return {"name": name, "gcePersistentDisk": {"pdName": f"disk-{index}", "readOnly": read_only}}
    claim = kind if kind == "missing" else f"{kind}-{0 if kind == 'unbound' else index}"
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


def _bind(
    scenario: Scenario,
    claim: str,
    spec: Json,
    *,
    mode: str = "ReadWriteOnce",
    labels: dict[str, str] | None = None,
) -> None:
    """Add a volume and the claim that is bound to it."""
    name = f"{scenario.name}-{claim}"
    source = {} if "csi" in spec else {"nfs": {"server": "none", "path": "/"}}
    scenario.volumes.append(
        {
            "metadata": {"name": name, "labels": {SCENARIO: scenario.name, **(labels or {})}},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": [mode],
                "claimRef": {"namespace": scenario.name, "name": claim},
                **source,
                **spec,
            },
        }
    )
    scenario.claims.append(_claim(scenario.name, claim, mode, name))


def _claim(namespace: str, name: str, mode: str, volume: str) -> Json:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    return {
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {
            "accessModes": [mode],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
            **({"volumeName": volume} if volume else {}),
        },
    }


def _csi_node(name: str, disks: int) -> Json:
    driver = {"name": _DRIVER, "nodeID": name, "allocatable": {"count": disks}}
    return {"metadata": {"name": name}, "spec": {"drivers": [driver]}}
