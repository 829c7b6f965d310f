"""Statuses of residents during an in-place resize, as their kubelets would report them."""

from random import Random

from differential.scenario import Json, Scenario

_AMOUNTS = {"cpu": ("0", "100m", "500m", "1", "1500m", "3"), "memory": ("64Mi", "1G", "1500Mi", "5Gi")}
_PENDING = ("Deferred", "Infeasible", "Infeasible")


def add_resizes(scenario: Scenario) -> None:
    """Add statuses to some residents, and pod-level requests to some of these, without other changes."""
    rng = Random(f"{scenario.seed} resizes")  # noqa: S311 -- to be repeatable
    for pod in scenario.residents:
        if rng.random() < 0.5:
            continue
        spec = pod["spec"]
        if rng.random() < 0.4:
            spec["resources"] = {"requests": rng.choice(({"cpu": "2"}, {"cpu": "3", "memory": "4Gi"}))}
            for container in (*spec["containers"], *spec["initContainers"]):
                container["resources"] = {}
        pod["status"] = _status(rng, spec)


def _status(rng: Random, spec: Json) -> Json:
    status: Json = {
        "conditions": [],
        "containerStatuses": [_container_status(rng, each["name"]) for each in spec["containers"]],
        "initContainerStatuses": [_container_status(rng, each["name"]) for each in spec["initContainers"]],
    }
    if "resources" in spec:
        status |= _allocation(rng)
    if rng.random() < 0.5:
        condition = {"type": "PodResizePending", "status": "True", "reason": rng.choice(_PENDING)}
        status["conditions"].append(condition)
    if rng.random() < 0.3:
        status["conditions"].append({"type": "PodResizeInProgress", "status": "True"})
    return status


def _container_status(rng: Random, name: str) -> Json:
    status = {"name": name, "ready": True, "restartCount": 0, "image": "", "imageID": ""}
    return status | _allocation(rng)


def _allocation(rng: Random) -> Json:
    allocation: Json = {}
    if rng.random() < 0.8:
        allocation["resources"] = {"requests": _requests(rng)}
    if rng.random() < 0.8:
        allocation["allocatedResources"] = _requests(rng)
    return allocation


def _requests(rng: Random) -> Json:
    return {name: rng.choice(amounts) for name, amounts in _AMOUNTS.items() if rng.random() < 0.8}
