"""Pods with resource claims, beside kube-scheduler: python -m bench.devices [--quick] [--json FILE].

The drains of bench.throughput on nodes with devices. Each pod has a claim of its own, which the benchmark
creates in place of the resourceclaim controller, as neither scheduler does that.
"""

import argparse
import sys
from collections.abc import Sequence

from bench.command import add_counts, add_json, is_quick, run_alone
from bench.device_claims import CLASSES, SLICES
from bench.nodes import Json
from bench.pods import pod_name
from bench.scenarios import BOUND, Scenario, node_name, plain_node, plain_pod
from bench.throughput import run
from tidelock.plugins.dynamic_resources.plugin import DynamicResources

DRIVER = "gpu.example.com"
_CLASS = "gpu"
_MODELS = ("A100", "H100")
_MEMORY = 80


def device_class() -> Json:
    """Return the class of all devices of the driver."""
    return {"metadata": {"name": _CLASS}, "spec": {"selectors": [_selector(f"device.driver == '{DRIVER}'")]}}


def device_slice(node: int, count: int) -> Json:
    """Return the devices of a node, all of one model, each with an attribute of its own."""
    name = node_name(node)
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "model": {"string": _MODELS[node % len(_MODELS)]},
                "uuid": {"string": f"{name}-{index}"},
            },
            "capacity": {"memory": {"value": f"{_MEMORY}Gi"}},
        }
        for index in range(count)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{name}-gpus"}, "spec": spec}


def device_claim(number: int) -> Json:
    """Return the claim of a pod: one device, or two for every fourth pod, of enough memory."""
    enough = f"device.capacity['{DRIVER}'].memory.compareTo(quantity('{_MEMORY // 2}Gi')) >= 0"
    wanted = {
        "deviceClassName": _CLASS,
        "allocationMode": "ExactCount",
        "count": 2 if number % 4 == 0 else 1,
        "selectors": [_selector(enough)],
    }
    requests = [{"name": "gpu", "exactly": wanted}]
    return {"metadata": {"name": pod_name(number)}, "spec": {"devices": {"requests": requests}}}


def claiming_pod(number: int) -> Json:
    """Return the shape of a pod with its claim."""
    shape = plain_pod(number)
    (container,) = shape["spec"]["containers"]
    resources = container["resources"] | {"claims": [{"name": "gpu"}]}
    claims = [{"name": "gpu", "resourceClaimName": pod_name(number)}]
    spec = {"containers": [container | {"resources": resources}], "resourceClaims": claims}
    return shape | {"spec": spec}


def drain(nodes: int, pods: int, devices: int) -> Scenario:
    """Return a drain of pods with claims on nodes with so many devices each."""
    return Scenario(
        name="devices",
        title=f"drain of pods with claims, {nodes} nodes with {devices} devices",
        nodes=nodes,
        pods=pods,
        node=plain_node,
        pod=claiming_pod,
        cluster=[
            (CLASSES, device_class()),
            *((SLICES, device_slice(node, devices)) for node in range(nodes)),
        ],
        claim=device_claim,
        plugins=frozenset({DynamicResources.name}),
        goal=(BOUND, 1.2),
    )


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line. --quick changes the defaults, and given options take precedence."""
    parser = argparse.ArgumentParser(prog="bench.devices", description="Compare pods with resource claims.")
    quick = is_quick(parser, arguments, "a small cluster, for a first look")
    counts = (
        ("nodes", 1_000, 50, "nodes without kubelets"),
        ("devices", 8, 8, "devices of each node"),
        ("pods", 2_000, 200, "pods of a drain"),
        ("rounds", 3, 1, "rounds of each program, in turn"),
        ("limit", 600, 180, "seconds after which a round fails"),
    )
    add_counts(parser, counts, quick=quick)
    add_json(parser, arguments)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark on a new control plane, and return the exit status."""
    options = parse(arguments)
    # `run` takes the options of bench.throughput.
    theirs = {"chosen": [drain(options.nodes, options.pods, options.devices)], "fsync": False}
    return run_alone(run, argparse.Namespace(**vars(options), **theirs, profile=None, plot=None))


def _selector(expression: str) -> Json:
    return {"cel": {"expression": expression}}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
