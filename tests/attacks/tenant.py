"""A tenant of the cluster as RBAC sees it, and a probe of the latency that other tenants see."""

import itertools
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from cluster.api import Api
from cluster.world import World
from devcluster import Cluster, wait_for
from devcluster.tenants import AUTHOR, MANAGER, Rule, tenant_account
from tidelock.kube.client import ApiResource

ANSWERED_WITHIN = 5.0
"""Seconds in which a small Reservation must be answered, beside other tenants and other tests."""

_RULES = ApiResource(
    "authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False
)
_OF_EVERYBODY = {"authorization.k8s.io", "authentication.k8s.io"}


class Tenant(World):
    """A namespace with clients that have tokens of its ServiceAccounts.

    `admin`, an administrator of the cluster, creates nodes, quotas and priority classes. `api` creates all
    other objects.

    Attributes:
        api: has the rights of `manager` and `author`, as a team with one account for pods and Reservations.

    """

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        """Create the namespace and the team's account. The other accounts are created when they are used."""
        super().__init__(Api(cluster.kubeconfig))
        self._cluster, self._directory = cluster, directory
        self.api = self.account("team", MANAGER, AUTHOR)

    @cached_property
    def manager(self) -> Api:
        """The client of an account with the ClusterRole tidelock-manager in this namespace."""
        return self.account("manager", MANAGER)

    @cached_property
    def author(self) -> Api:
        """The client of an account with `devcluster.tenants.AUTHOR` in this namespace."""
        return self.account("author", AUTHOR)

    def account(self, name: str, *roles: str | Sequence[Rule]) -> Api:
        """Create an account of this tenant, and wait until its rights are effective.

        A role is a ClusterRole's name, or the rules of a Role.
        """
        client = Api(tenant_account(self._cluster, self.namespace, name, roles, self._directory))
        wait_for(lambda: self._roles_count(client, len(roles)), what=f"the rights of {name} to count")
        return client

    def _roles_count(self, client: Api, least: int) -> bool:
        """Return whether the API server knows enough rules of an account beyond those of all accounts."""
        review = client.create(_RULES.collection(), {"spec": {"namespace": self.namespace}})
        rules = review["status"]["resourceRules"]
        return sum(not _OF_EVERYBODY.intersection(rule["apiGroups"]) for rule in rules) >= least


class LatencyProbe:
    """A tenant that does not attack and creates small Reservations on a node of its own."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.node = tenant.node("probe")
        self._numbers = itertools.count()

    def __call__(self) -> float:
        """Create a Reservation, return how many seconds it took to become Active, and delete it."""
        begin = time.monotonic()
        reservation = self.tenant.reservation(f"probe-{next(self._numbers)}", "100m", self.node)
        reservation.until_phase("Active")
        seconds = time.monotonic() - begin
        reservation.delete()
        return seconds

    def check(self) -> None:
        """Assert that a Reservation is answered in time."""
        took = self()
        assert took <= ANSWERED_WITHIN, f"a reservation took {took:.2f} s"
