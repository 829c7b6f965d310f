"""Agreement of the objects of a rendering: each option has its port, Service, webhooks, rights and files."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any

from installation.rendering import Manifest, by_key
from tidelock.binders.endpoint import SERVICE
from tidelock.binders.webhooks import CONFIGURATION
from tidelock.integrations.karmada.server import ENDPOINT
from tidelock.main import _parser
from tidelock.settings import Settings

POD_IP = "10.0.0.1"
"""The address of the pod, in the place of the variable that the kubelet sets."""
DEPLOYMENT = "Deployment/tidelock"
_NAMED = ("env", "ports", "volumes", "volumeMounts", "containers")
_VARIABLE = re.compile(r"\$\((\w+)\)")
_ADMISSION = "admissionregistration.k8s.io"
_SCALING = "autoscaling.x-k8s.io"
Right = tuple[str, str, str, str]
"""A verb, an API group, a resource, and the name of an object, or an empty text for all."""


def container(deployment: Manifest) -> Manifest:
    """Return the only container of the operator's pods."""
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    found: Manifest = only
    return found


def arguments(deployment: Manifest) -> list[str]:
    """Return the arguments of the operator, in which the kubelet has replaced the variables that exist."""
    values = {each["name"]: each.get("value", POD_IP) for each in container(deployment).get("env", ())}
    args = container(deployment)["args"]
    return [_VARIABLE.sub(lambda found: values.get(found[1], found[0]), each) for each in args]


def settings_of(deployment: Manifest) -> Settings:
    """Read the arguments as the operator does."""
    words = arguments(deployment)
    parsed = vars(_parser(words).parse_args(words))
    return Settings(**{name: parsed[name] for name in asdict(Settings())})


def leaves(manifest: Any, path: str = "") -> dict[str, Any]:
    """Return the values of an object by path. In lists of named items the name takes the place of the index.

    The order of such items, and of options, has no meaning.
    """
    if isinstance(manifest, dict):
        found: dict[str, Any] = {}
        for name, value in manifest.items():
            found |= leaves(_without_order(name, value), f"{path}.{name}")
        return found
    if isinstance(manifest, list):
        found = {}
        for index, value in enumerate(manifest):
            found |= leaves(value, f"{path}[{index}]")
        return found
    return {path: manifest}


def _without_order(field: str, value: Any) -> Any:
    """Return a list without an order as a mapping, and any other value as it is."""
    if field == "args":
        return options_of(value)
    if field in _NAMED and all("name" in each for each in value):
        return {each["name"]: each for each in value}
    return value


def options_of(args: Sequence[str]) -> dict[str, list[str]]:
    """Return the words of each option by its name."""
    found: dict[str, list[str]] = {}
    name = ""
    for word in args:
        name = word if word.startswith("--") else name
        found.setdefault(name, []).append(word)
    return found


def disagreements(objects: Sequence[Manifest]) -> list[str]:
    """Return a sentence for each object or option that does not fit the others."""
    known = by_key(objects)
    unknown = [each for each in arguments(known[DEPLOYMENT]) if _VARIABLE.search(each)]
    if unknown:  # the operator would refuse them
        return [f"no variable for {each}" for each in unknown]
    return [
        *_of_arguments(known[DEPLOYMENT]),
        *_of_files(known),
        *_of_ports(known),
        *_of_webhooks(known),
        *_of_rights(known),
        *_of_bindings(known),
        *_of_replicas(known),
    ]


def _of_arguments(deployment: Manifest) -> Iterator[str]:
    words = [each for each in arguments(deployment) if each.startswith("--")]
    yield from (f"{each} is given twice" for each in dict.fromkeys(words) if words.count(each) > 1)


def _of_files(known: Mapping[str, Manifest]) -> Iterator[str]:
    """Check that each file of an option is mounted, and that each mount has a volume with a source."""
    deployment = known[DEPLOYMENT]
    settings = settings_of(deployment)
    mounts = container(deployment).get("volumeMounts", [])
    volumes = deployment["spec"]["template"]["spec"].get("volumes", [])
    if sorted(each["name"] for each in mounts) != sorted(each["name"] for each in volumes):
        yield "volumes and mounts differ"
    karmada = settings.karmada_tls if settings.karmada_cluster else ""
    folders = {each["mountPath"] for each in mounts}
    for file in filter(
        None, (settings.config, settings.extender_clients, settings.metrics_token_file, karmada)
    ):
        if not folders & {file, *map(str, PurePosixPath(file).parents)}:
            yield f"{file} is not mounted"
    for each in volumes:
        if (config := each.get("configMap")) and f"ConfigMap/{config['name']}" not in known:
            yield f"there is no ConfigMap {config['name']}"


def _served(settings: Settings) -> dict[str, int]:
    """Return the ports that the operator serves, by the names that manifests use."""
    binders = settings.extender or settings.admission or settings.answers
    found = {"http": settings.port}
    found |= {"https": settings.tls_port} if binders else {}
    return found | ({"grpc": settings.karmada_port} if settings.karmada_cluster else {})


def _of_ports(known: Mapping[str, Manifest]) -> Iterator[str]:
    """Check that each served port is one of the container, of a Service, and of a NetworkPolicy."""
    deployment = known[DEPLOYMENT]
    settings = settings_of(deployment)
    served = _served(settings)
    ports = {each["name"]: each["containerPort"] for each in container(deployment)["ports"]}
    if ports != served:
        yield f"the container has the ports {ports}, and the operator serves {served}"
    services = {
        (each["metadata"]["name"], port["name"])
        for each in known.values()
        if each["kind"] == "Service"
        for port in each["spec"]["ports"]
    }
    names = {"http": "tidelock", "https": SERVICE, "grpc": ENDPOINT}
    if services != (wanted := {(names[port], port) for port in served}):
        yield f"there are the Services {sorted(services)}, and {sorted(wanted)} are needed"
    admitted = {
        port["port"]
        for each in known.values()
        if each["kind"] == "NetworkPolicy"
        for rule in each["spec"].get("ingress", ())
        for port in rule["ports"]
    }
    if admitted != served.keys():
        yield f"the policies admit {sorted(admitted)}, and the operator serves {sorted(served)}"
    addresses = {"https": settings.tls_address, "grpc": settings.karmada_address}
    yield from (f"no Service leads to {each}" for each in served.keys() & addresses if not addresses[each])


def _of_webhooks(known: Mapping[str, Manifest]) -> Iterator[str]:
    """Check that the webhooks that the operator serves, and no others, are called at a port of a Service."""
    settings = settings_of(known[DEPLOYMENT])
    for kind, served in (("Validating", settings.admission), ("Mutating", settings.answers)):
        configuration = known.get(f"{kind}WebhookConfiguration/{CONFIGURATION}")
        if (configuration is not None) != served:
            yield f"{kind} webhooks are {'served' if served else 'not served'}"
        for each in (configuration or {}).get("webhooks", ()):
            target = each["clientConfig"]["service"]
            service = known.get(f"Service/{target['name']}", {"spec": {"ports": []}})
            if target["port"] not in {port["port"] for port in service["spec"]["ports"]}:
                yield f"{each['name']} calls a port that is not there"


def _wanted(settings: Settings) -> dict[Right, bool]:
    """Return the rights of the components, and whether the options need them."""
    served = _served(settings)
    slices, webhooks = "endpointslices", "validatingwebhookconfigurations"
    return {
        ("patch", _ADMISSION, webhooks, CONFIGURATION): settings.admission,
        ("patch", _ADMISSION, "mutatingwebhookconfigurations", CONFIGURATION): settings.answers,
        ("get", "", "secrets", "tidelock-tls"): "https" in served,
        ("patch", "", "secrets", "tidelock-tls"): "https" in served,
        ("create", "discovery.k8s.io", slices, ""): len(served) > 1,
        ("patch", "discovery.k8s.io", slices, SERVICE): "https" in served,
        ("patch", "discovery.k8s.io", slices, ENDPOINT): "grpc" in served,
        ("update", _SCALING, "provisioningrequests/status", ""): settings.provisioning_requests,
        ("create", _SCALING, "capacitybuffers", ""): settings.request_nodes,
        ("create", "", "podtemplates", ""): settings.request_nodes,
        ("create", "tidelock.dev", "reservationgroups", ""): settings.provisioning_requests,
    }


def _granted(objects: Sequence[Manifest]) -> set[Right]:
    return {
        (verb, group, resource, name)
        for each in objects
        if each["kind"] in {"Role", "ClusterRole"} and each["metadata"]["name"].startswith("tidelock")
        for rule in each.get("rules") or ()
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }


def _of_rights(known: Mapping[str, Manifest]) -> Iterator[str]:
    """Check that the operator has the rights that its options need, and none for those that are off."""
    roles = {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in _bindings(known)}
    bound = [each for each in known.values() if (each["kind"], each["metadata"]["name"]) in roles]
    granted = _granted(bound)
    for right, wanted in _wanted(settings_of(known[DEPLOYMENT])).items():
        if (right in granted) != wanted:
            yield f"the right {right} is {'missing' if wanted else 'granted in vain'}"


def _bindings(known: Mapping[str, Manifest]) -> list[Manifest]:
    return [each for each in known.values() if each["kind"] in {"RoleBinding", "ClusterRoleBinding"}]


def _of_bindings(known: Mapping[str, Manifest]) -> Iterator[str]:
    """Check that each role that is bound exists, and that the operator's account has it."""
    account = known[DEPLOYMENT]["spec"]["template"]["spec"]["serviceAccountName"]
    for each in _bindings(known):
        role = each["roleRef"]
        if f"{role['kind']}/{role['name']}" not in known:
            yield f"{role['name']} is bound and does not exist"
        if [(subject["kind"], subject["name"]) for subject in each["subjects"]] != [
            ("ServiceAccount", account)
        ]:
            yield f"{each['metadata']['name']} does not bind the operator's account"


def _of_replicas(known: Mapping[str, Manifest]) -> Iterator[str]:
    """Check that several replicas, and only they, have a budget, a spread and a strategy that fit."""
    spec = known[DEPLOYMENT]["spec"]
    budget = known.get("PodDisruptionBudget/tidelock")
    several = spec["replicas"] > 1
    if (budget is not None) != several:
        yield f"{spec['replicas']} replicas have {'a' if budget else 'no'} budget"
    if budget is not None and budget["spec"]["selector"] != spec["selector"]:
        yield "the budget selects other pods"
    if budget is not None and not 0 < budget["spec"]["maxUnavailable"] < spec["replicas"]:
        yield "the budget refuses each eviction, or none"
    spread = spec["template"]["spec"].get("topologySpreadConstraints", ())
    hard = [each for each in spread if each["whenUnsatisfiable"] == "DoNotSchedule"]
    fields = [(each["topologyKey"], each["maxSkew"], each.get("minDomains")) for each in hard]
    if fields != ([("kubernetes.io/hostname", 1, 2)] if several else []):
        yield f"{spec['replicas']} replicas have the spread {fields}"
    update = spec.get("strategy", {}).get("rollingUpdate")
    if update != ({"maxSurge": 0, "maxUnavailable": 1} if several else None):
        yield f"{spec['replicas']} replicas have the roll-out {update}"
