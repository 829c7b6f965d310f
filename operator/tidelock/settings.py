"""Settings with their defaults, which the command line of `tidelock run` sets."""

import socket
from dataclasses import dataclass

DEFAULT_SCHEDULER_NAME = "tidelock-scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one operator process.

    Attributes:
        kubeconfig: file to connect with. Empty: $KUBECONFIG, the pod's service account or ~/.kube/config.
        config: file with a KubeSchedulerConfiguration. Empty: the default profile alone.
        scheduler_name: without a file, pods with this spec.schedulerName are scheduled here.
        listen: address of the HTTP server for metrics, probes and the web view.
        port: its port, or 0 for any free one.
        metrics_token_file: file with the bearer token that scrapes must send. Empty: metrics are open.
        web_view: whether to serve the web view there. It needs the same token, if there is one.
        web_address: address of this process, as the endpoint of the Service tidelock-web while it leads, in
            the Lease's namespace. Empty: users know the address.
        log_format: "text" or "json".
        log_level: least severe level that is logged, such as "info".
        move_after_seconds: how long a reservation for any node stays on a cordoned or unready node.
        earmark_after_seconds: how long a reservation must wait before capacity is kept for it as it becomes
            free.
        borrower_grace_seconds: longest grace period, in whole seconds, of a borrower that is evicted for an
            owner.
        extender: whether to serve the extender API, with which other schedulers respect reservations.
        extender_clients: PEM file with the certificates of these schedulers, or of their authorities.
            Without it all of them are refused.
        admission: whether to review the bindings of other binders.
        answers: whether to answer reservations in the response to their creation.
        provisioning_requests: whether to serve ProvisioningRequests of the class hold.tidelock.dev.
        tls_port: port on `listen` for these, over TLS.
        tls_address: address of this process, as the endpoint of the Service tidelock-binders while it leads,
            in the Secret's namespace. Empty: the callers know the address.
        tls_names: DNS names and addresses for which the certificate is created.
        tls_secret: namespace/name of the Secret in which the certificate is kept.
        tls_rotate: whether to create and replace the certificate. Otherwise another component, such as
            cert-manager, keeps it in the Secret, and its authority in the webhooks.
        karmada_cluster: name under which Karmada knows this cluster. Its scheduler's questions about capacity
            are answered if it is not empty.
        karmada_port: port on `listen` for these questions, over gRPC and mutual TLS.
        karmada_address: address of this process, as the endpoint of the Service tidelock-estimator while it
            leads, in the installation's namespace. Empty: the callers know the address.
        karmada_tls: folder with tls.crt, tls.key, and the authority of callers in ca.crt.
        leader_elect: whether to decide only while holding the Lease, so others can stand by.
        lease_name: name of the Lease.
        lease_namespace: its namespace. Empty: the pod's own, or tidelock-system outside of a pod.
        lease_duration_seconds: how long others wait for a silent leader, which stops writing after two thirds
            of that time.
        keep_nodes: whether autoscalers must keep nodes while these hold reservations, where a quota says so.
        request_nodes: whether to ask autoscalers for nodes, for reservations where a quota says so, and for
            pods that only reservations keep from nodes. It includes `keep_nodes`.
        instance: name of this process in events.

    """

    kubeconfig: str = ""
    config: str = ""
    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    listen: str = "0.0.0.0"  # noqa: S104 -- probes and Prometheus connect from outside the pod
    port: int = 8080
    metrics_token_file: str = ""
    web_view: bool = False
    web_address: str = ""
    log_format: str = "text"
    log_level: str = "info"
    move_after_seconds: float = 300.0
    earmark_after_seconds: float = 60.0
    borrower_grace_seconds: int = 30
    extender: bool = False
    extender_clients: str = ""
    admission: bool = False
    answers: bool = False
    provisioning_requests: bool = False
    tls_port: int = 8443
    tls_address: str = ""
    tls_names: tuple[str, ...] = ("tidelock-binders.tidelock-system.svc",)
    tls_secret: str = "tidelock-system/tidelock-tls"  # noqa: S105 -- its name
    tls_rotate: bool = True
    karmada_cluster: str = ""
    karmada_port: int = 10352
    karmada_address: str = ""
    karmada_tls: str = "/var/run/karmada-tls"
    leader_elect: bool = True
    lease_name: str = "tidelock"
    lease_namespace: str = ""
    lease_duration_seconds: int = 15
    keep_nodes: bool = False
    request_nodes: bool = False
    instance: str = socket.gethostname()
