"""A comparison of the operator's ledger with the API server, for a time without changes."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from soak.samples import Metrics
from tidelock.model.quantities import CPU, parse_resources
from tidelock.model.quantities import PODS as POD_COUNT

Json = Mapping[str, Any]

_MILLI = 1000
_KINDS = ("allocatable", "requested", "locked")
_ONE = {POD_COUNT: "1"}


@dataclass(frozen=True)
class Account:
    """Sums by name: amounts by kind and resource, reservations by phase, and waiting pods."""

    sums: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, amounts: Mapping[str, str]) -> None:
        """Add a resource list."""
        for resource, units in parse_resources(amounts).items():
            self.sums[f"{kind} {resource}"] += units

    def differences(self, api: "Account") -> list[str]:
        """Return a text for each difference between the ledger (this account) and the API."""
        return [
            f"{what}: {self.sums[what]} in the ledger, {api.sums[what]} in the API"
            for what in sorted(self.sums.keys() | api.sums.keys())
            if self.sums[what] != api.sums[what]
        ]


def of_ledger(metrics: Metrics) -> Account:
    """Return the account in the operator's own metrics."""
    account = Account()
    for kind in _KINDS:
        for (resource,), value in metrics[f"tidelock_{kind}"].items():
            account.sums[f"{kind} {resource}"] = round(value * (_MILLI if resource == CPU else 1))
    for (phase,), value in metrics["tidelock_reservations"].items():
        account.sums[f"locks {phase}"] = int(value)
    account.sums["pods waiting"] = int(sum(metrics["scheduler_pending_pods"].values()))
    return account


def of_api(nodes: Iterable[Json], pods: Iterable[Json], reservations: Iterable[Json]) -> Account:
    """Return the account of the API server's objects. Each pod has one container."""
    account = Account()
    names = set()
    for node in nodes:
        names.add(node["metadata"]["name"])
        account.add("allocatable", node["status"]["allocatable"])
    for pod in pods:
        if not pod["spec"].get("nodeName"):
            account.sums["pods waiting"] += 1
        elif pod["spec"]["nodeName"] in names:
            account.add("requested", pod["spec"]["containers"][0]["resources"]["requests"] | _ONE)
    for reservation in reservations:
        status = reservation.get("status", {})
        account.sums[f"locks {status.get('phase', 'Pending')}"] += 1
        if status.get("phase") == "Active":
            account.add("locked", status["resources"] | _ONE)
    return account
