"""The flags and the health check of each program of the control plane."""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import yaml

from devcluster.binaries import Binaries
from devcluster.component import Component
from devcluster.keys import Keys
from devcluster.loopback import HOST, Health, free_ports

APISERVER_GOGC = 400
"""GOGC of the API server. Its heap is tiny here, so Go's default of 100 would collect garbage many times a
second. That took about a quarter of its CPU time in a burst of writes."""

_REQUESTS_PER_SECOND = 1_000  # the programs' own limits are for shared clusters


class Ports(NamedTuple):
    """The port of each program."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int
    kwok: int

    @classmethod
    def choose(cls) -> Self:
        """Return ports that are free now."""
        return cls(*free_ports(len(cls._fields)))


@dataclass(frozen=True)
class Site:
    """The settings that the programs of one cluster share."""

    directory: Path
    binaries: Binaries
    keys: Keys
    ports: Ports

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig for programs and users."""
        return self.directory / "kubeconfig"

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://{HOST}:{self.ports.apiserver}"

    def component(
        self, name: str, port: int, health: str, *flags: str, tls: bool = True, variables: Sequence[str] = ()
    ) -> Component:
        """Describe a program that reports its health at a path of a port. Variables are NAME=value."""
        return Component(
            name=name,
            command=("/usr/bin/env", *variables, str(self.binaries.programs[name]), *flags),
            health=Health(port, health, self._tls if tls else None),
            directory=self.directory,
        )

    @property
    def tls_flags(self) -> tuple[str, str]:
        """Flags of a program that serves with the cluster's server certificate."""
        return (
            f"--tls-cert-file={self.keys.server_certificate}",
            f"--tls-private-key-file={self.keys.server_key}",
        )

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.keys.authority)
        context.load_cert_chain(self.keys.admin_certificate, self.keys.admin_key)
        return context


def etcd(site: Site, *, fsync: bool) -> Component:
    """Return etcd. Without fsync it is faster, and loses data in a power cut."""
    client, peer = f"http://{HOST}:{site.ports.etcd}", f"http://{HOST}:{site.ports.etcd_peer}"
    return site.component(
        "etcd",
        site.ports.etcd,
        "/readyz",
        f"--data-dir={site.directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        f"--unsafe-no-fsync={str(not fsync).lower()}",
        # As in kubeadm. Without it, watches of resources that have not changed yet get no bookmarks.
        "--watch-progress-notify-interval=5s",
        tls=False,
    )


def apiserver(site: Site, flags: Sequence[str]) -> Component:
    """Return the API server, with RBAC and ServiceAccount tokens on request, and none mounted into pods.

    `flags` are more flags.
    """
    return site.component(
        "kube-apiserver",
        site.ports.apiserver,
        "/readyz",
        f"--etcd-servers=http://{HOST}:{site.ports.etcd}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        f"--secure-port={site.ports.apiserver}",
        *site.tls_flags,
        f"--client-ca-file={site.keys.authority}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={site.keys.service_account_key}",
        f"--service-account-signing-key-file={site.keys.service_account_key}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",
        "--endpoint-reconciler-type=none",  # a loopback address is no endpoint of a service
        *flags,
        variables=(f"GOGC={APISERVER_GOGC}",),
    )


def controller_manager(site: Site, flags: Sequence[str]) -> Component:
    """Return the controllers, which create pods of Deployments, delete namespaces and untaint Ready nodes.

    `flags` are more flags.
    """
    return site.component(
        "kube-controller-manager",
        site.ports.controller_manager,
        "/healthz",
        f"--kubeconfig={site.kubeconfig}",
        f"--bind-address={HOST}",
        f"--secure-port={site.ports.controller_manager}",
        *site.tls_flags,
        f"--service-account-private-key-file={site.keys.service_account_key}",
        f"--root-ca-file={site.keys.authority}",
        "--leader-elect=false",
        f"--kube-api-qps={_REQUESTS_PER_SECOND}",
        f"--kube-api-burst={_REQUESTS_PER_SECOND}",
        *flags,
    )


def scheduler(site: Site, settings: Mapping[str, Any], flags: Sequence[str]) -> Component:
    """Return the stock scheduler, for pods that name no other.

    The API server decides which clients may read its metrics. `settings` are more fields of its
    KubeSchedulerConfiguration, and `flags` are more flags.
    """
    configuration = site.directory / "kube-scheduler.yaml"
    configuration.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {
                    "kubeconfig": str(site.kubeconfig),
                    "qps": _REQUESTS_PER_SECOND,
                    "burst": _REQUESTS_PER_SECOND,
                },
                "leaderElection": {"leaderElect": False},
                **settings,
            }
        )
    )
    return site.component(
        "kube-scheduler",
        site.ports.scheduler,
        "/healthz",
        f"--config={configuration}",
        f"--authentication-kubeconfig={site.kubeconfig}",
        f"--authorization-kubeconfig={site.kubeconfig}",
        f"--bind-address={HOST}",
        f"--secure-port={site.ports.scheduler}",
        *site.tls_flags,
        *flags,
    )


def kwok(site: Site) -> Component:
    """Return kwok, which simulates all kubelets. Every node becomes Ready, and every bound pod Running."""
    return site.component(
        "kwok",
        site.ports.kwok,
        "/healthz",
        f"--kubeconfig={site.kubeconfig}",
        f"--server-address={HOST}:{site.ports.kwok}",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
        *(f"--config={stage}" for stage in site.binaries.stages),
        tls=False,
    )
