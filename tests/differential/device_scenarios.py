"""Generated nodes with devices, and pods with claims to them."""

from dataclasses import dataclass, field
from random import Random

from differential.profiles import DEVICES
from differential.scenario import SCENARIO, Json

ADMIN_ACCESS = "resource.kubernetes.io/admin-access"
_HOT = {"key": "hot", "effect": "NoSchedule"}
_POLICIES: tuple[Json, ...] = (
    {},
    {"default": "2", "validValues": ["2", "3"]},
    {"default": "2", "validRange": {"min": "2", "max": "6", "step": "2"}},
    {"default": "500m", "validRange": {"min": "500m", "max": "6", "step": "250m"}},
)


@dataclass
class DeviceScenario:
    """The objects of a scenario. Its pods are scheduled one after the other, each with its claims."""

    seed: int
    nodes: list[Json] = field(default_factory=list)
    slices: list[Json] = field(default_factory=list)
    rules: list[Json] = field(default_factory=list)
    classes: list[Json] = field(default_factory=list)
    pods: list[tuple[Json, list[Json]]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The namespace, and the label of all nodes."""
        return f"devices-{self.seed}"

    @property
    def driver(self) -> str:
        """The driver of all devices."""
        return f"{self.name}.example.com"


def make_device_scenario(seed: int, pods: int) -> DeviceScenario:
    """Generate a scenario, always the same one for a seed."""
    rng = Random(f"{seed} devices")  # noqa: S311 -- to be repeatable
    made = DeviceScenario(seed)
    for index, letter in enumerate("ab"):
        size = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        labels = {SCENARIO: made.name, "rack": letter}
        made.nodes.append(
            {
                "metadata": {"name": f"{made.name}-{letter}", "labels": labels},
                "spec": {"taints": []},
                "status": {
                    "capacity": size,
                    "allocatable": size,
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
        )
        for number in range(rng.randint(0 if index else 1, 2)):
            _add_pool(made, rng, f"pool-{letter}{number}", {"nodeName": made.nodes[-1]["metadata"]["name"]})
    if rng.random() < 0.5:
        _add_pool(made, rng, "pool-shared", rng.choice([{"allNodes": True}, {"nodeSelector": _rack("b")}]))
    made.classes = [_class(made, "gpu"), _class(made, "fast", "device.attributes[DRIVER].speed >= 2")]
    if rng.random() < 0.3:
        selector = {"driver": made.driver, "device": "d1"}
        taint = {"key": "drain", "effect": rng.choice(["NoSchedule", "NoExecute", "None"])}
        made.rules.append(
            {"metadata": {"name": made.name}, "spec": {"deviceSelector": selector, "taint": taint}}
        )
    for number in range(pods):
        made.pods.append(_pod(made, rng, number))
    return made


def _rack(value: str) -> Json:
    wanted = {"key": "rack", "operator": "In", "values": [value]}
    return {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}


def _class(made: DeviceScenario, kind: str, *more: str) -> Json:
    expressions = ["device.driver == DRIVER", *more]
    config = [{"opaque": {"driver": made.driver, "parameters": {"kind": kind}}}]
    return {
        "metadata": {"name": f"{made.name}-{kind}"},
        "spec": {"selectors": _selectors(made, *expressions), "config": config},
    }


def _selectors(made: DeviceScenario, *expressions: str) -> list[Json]:
    return [{"cel": {"expression": each.replace("DRIVER", f"'{made.driver}'")}} for each in expressions]


def _add_pool(made: DeviceScenario, rng: Random, name: str, place: Json) -> None:
    """Add the slices of a pool, with counters or without, complete or not."""
    counters = rng.random() < 0.35
    parts = rng.randint(1, 2)
    total = parts + counters + (rng.random() < 0.08)
    pool = {"name": name, "generation": 1, "resourceSliceCount": total}
    names = iter(rng.sample(["d0", "d1", "d2", "d3", "d4", "d5"], 6))
    spec = {"driver": made.driver, "pool": pool, **place}
    for part in range(parts):
        devices = [_device(rng, next(names), counters=counters) for _ in range(rng.randint(1, 3))]
        made.slices.append(
            {
                "metadata": {"name": f"{made.name}-{name}-{part}"},
                "spec": {**spec, "devices": devices},
            }
        )
    if counters:
        shared = [{"name": "chip", "counters": {"slots": {"value": str(rng.randint(1, 4))}}}]
        made.slices.append(
            {
                "metadata": {"name": f"{made.name}-{name}-counters"},
                "spec": {**spec, "sharedCounters": shared},
            }
        )


def _device(rng: Random, name: str, *, counters: bool) -> Json:
    made: Json = {
        "name": name,
        "attributes": {
            "speed": {"int": rng.randint(1, 3)},
            "board": {"string": rng.choice("xyz")},
            "firmware": {"version": rng.choice(["1.0.0", "1.2.0"])},
        },
    }
    if rng.random() < 0.5:
        made["capacity"] = {"memory": {"value": str(rng.randint(6, 8))}}
        if rng.random() < 0.6:
            made["allowMultipleAllocations"] = True
            if policy := rng.choice(_POLICIES):
                made["capacity"]["memory"]["requestPolicy"] = policy
    if counters:
        amount = {"slots": {"value": str(rng.randint(1, 2))}}
        made["consumesCounters"] = [{"counterSet": "chip", "counters": amount}]
    if rng.random() < 0.15:
        made["taints"] = [_HOT]
    return made


def _pod(made: DeviceScenario, rng: Random, number: int) -> tuple[Json, list[Json]]:
    claims = [_claim(made, rng, f"claim-{number}-{index}") for index in range(rng.choice([1, 1, 1, 2]))]
    names = [each["metadata"]["name"] for each in claims]
    metadata = {"name": f"pod-{number}", "namespace": made.name}
    spec = {
        "schedulerName": DEVICES,
        "nodeSelector": {SCENARIO: made.name},
        "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}],
        "resourceClaims": [{"name": each, "resourceClaimName": each} for each in names],
    }
    return {"metadata": metadata, "spec": spec}, claims


def _claim(made: DeviceScenario, rng: Random, name: str) -> Json:
    requests = [_request(made, rng, f"r{index}") for index in range(rng.choice([1, 1, 2]))]
    devices: Json = {"requests": requests}
    everything = "'All'" in str(requests)
    if not everything and rng.random() < 0.35:  # it would be an error, with a retry
        attribute = f"{made.driver}/{rng.choice(['board', 'firmware', 'speed'])}"
        constraint: Json = {rng.choice(["matchAttribute", "distinctAttribute"]): attribute}
        if rng.random() < 0.4:
            constraint["requests"] = ["r0"]
        devices["constraints"] = [constraint]
    if rng.random() < 0.3:
        config: Json = {"opaque": {"driver": made.driver, "parameters": {"of": name}}}
        if rng.random() < 0.5:
            config["requests"] = ["r0"]
        devices["config"] = [config]
    return {"metadata": {"name": name, "namespace": made.name}, "spec": {"devices": devices}}


def _request(made: DeviceScenario, rng: Random, name: str) -> Json:
    if rng.random() < 0.3:
        alternatives = [{"name": letter, **_wanted(made, rng)} for letter in "abc"[: rng.randint(2, 3)]]
        return {"name": name, "firstAvailable": alternatives}
    wanted = _wanted(made, rng)
    if rng.random() < 0.1:
        wanted["adminAccess"] = True
    return {"name": name, "exactly": wanted}


def _wanted(made: DeviceScenario, rng: Random) -> Json:
    made_of = f"{made.name}-{rng.choice(['gpu', 'gpu', 'fast'])}"
    wanted: Json = {"deviceClassName": made_of}
    if rng.random() < 0.15:
        wanted["allocationMode"] = "All"
    else:
        wanted |= {"allocationMode": "ExactCount", "count": rng.choice([1, 1, 1, 2, 3])}
    if rng.random() < 0.3:
        condition = rng.choice(
            [
                "device.attributes[DRIVER].board == 'x'",
                "'memory' in device.capacity[DRIVER]",
                "device.attributes[DRIVER].firmware.isGreaterThan(semver('1.1.0'))",
                "device.allowMultipleAllocations",
            ]
        )
        wanted["selectors"] = _selectors(made, condition)
    if rng.random() < 0.2:
        wanted["capacity"] = {"requests": {"memory": rng.choice(["1", "3", "700m"])}}
    if rng.random() < 0.3:
        wanted["tolerations"] = [{"key": "hot", "operator": "Exists", "effect": "NoSchedule"}]
    return wanted
