"""Wire types of WaterLevel: placement of new pods by the measured use of nodes."""

from typing import Annotated, Literal

from pydantic import Field

from tidelock.model.api.placement import LabelSelector
from tidelock.model.api.resource_list import Bytes, PositiveQuantity
from tidelock.model.api.wire import (
    Conditions,
    DnsLabel,
    Generation,
    Percent,
    Rule,
    StatusWire,
    Subdomain,
    Timestamp,
    Wire,
    list_map,
)

HOUR_SECONDS = 3600

PromQl = Annotated[str, Field(min_length=1, max_length=4096)]
OverloadLimit = Annotated[int, Field(ge=1, le=100)]
NodeCount = Annotated[int, Field(ge=0, le=1_000_000)]
MeasuredPercent = Annotated[int, Field(ge=0, le=1000)]


class Queries(Wire):
    """PromQL that replaces the defaults for node-exporter and cAdvisor."""

    node_cpu: Annotated[PromQl | None, Field(alias="nodeCPU")] = None
    """CPU use of each node, as a part of what it has: 0 to 1."""
    node_memory: PromQl | None = None
    """Memory use of each node, as a part of what it has: 0 to 1."""
    node_time: PromQl | None = None
    """Time of each node's last sample, in seconds since 1970; without an answer, samples count as new."""
    node_names: PromQl | None = None
    """Series that tell by labels which instance (or internal_ip) is which node (or nodename)."""
    pod_cpu: Annotated[PromQl | None, Field(alias="podCPU")] = None
    """CPU use of each pod in cores, by the labels namespace and pod."""
    pod_memory: PromQl | None = None
    """Memory use of each pod in bytes, by the labels namespace and pod."""


class SecretReference(Wire):
    """A Secret with a key `token`, or `username` and `password`, and perhaps `ca.crt`."""

    namespace: DnsLabel
    """Namespace of the Secret."""
    name: Subdomain
    """Name of the Secret."""


class Prometheus(Wire):
    """A server that speaks the Prometheus HTTP API."""

    address: Annotated[str, Field(max_length=2048, pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$")]
    """Base URL, such as http://prometheus.monitoring:9090; without credentials, which others could read."""
    queries: Queries | None = None
    """PromQL that replaces the defaults for node-exporter and cAdvisor."""
    node_label: Annotated[str, Field(max_length=256, pattern="^[a-zA-Z_][a-zA-Z0-9_]*$")] | None = None
    """Label that names the node of a series; absent: node, nodename, kubernetes_node, instance or host."""
    timeout_seconds: Annotated[int, Field(ge=1, le=300)] = 10
    """How long one query may take."""
    auth_secret_ref: SecretReference | None = None
    """Secret to log in with, and with the authorities to trust; absent: no authentication."""


class MetricsServer(Wire):
    """The resource metrics API, metrics.k8s.io, which knows the last moment alone."""


class MetricsSource(Wire):
    """Where measurements come from."""

    prometheus: Prometheus | None = None
    """A server that speaks the Prometheus HTTP API; exactly one source is required."""
    metrics_server: MetricsServer | None = None
    """The resource metrics API; exactly one source is required."""

    rules = (
        Rule(
            "has(self.prometheus) != has(self.metricsServer)",
            "exactly one of prometheus and metricsServer is required",
            reason="FieldValueRequired",
        ),
    )


class UsageWindow(Wire):
    """A span of time over which use is averaged."""

    duration: Literal["15m", "1h", "1d"]
    """Length of the span."""
    weight: Annotated[int, Field(ge=1, le=100)]
    """Share of the window in the final score, relative to the other windows."""


class Target(Wire):
    """The level that nodes are packed towards and not beyond."""

    mode: Literal["Static", "Dynamic"]
    """Static: a given percentage. Dynamic: drawn from the mean and the lowest level of the group."""
    percent: Percent | None = None
    """The level for Static."""
    min_weight: Annotated[float, Field(ge=0, le=100)] | None = None
    """Weight w of the lowest level for Dynamic: (mean + w * min) / (1 + w); absent: 0, the mean itself."""

    rules = (
        Rule(
            "(self.mode == 'Static') == has(self.percent)",
            "percent is required for Static and refused for Dynamic",
            field=".percent",
        ),
        Rule(
            "self.mode == 'Dynamic' || !has(self.minWeight)",
            "minWeight is refused for Static",
            field=".minWeight",
        ),
    )


class OverloadLimits(Wire):
    """Levels above which a node takes no new pod while its measurement is fresh."""

    cpu_percent: OverloadLimit | None = None
    """Limit for CPU; absent: none."""
    memory_percent: OverloadLimit | None = None
    """Limit for memory; absent: none."""


class PodEstimation(Wire):
    """Use assumed of a pod that has no history, no limit and no request."""

    default_cpu: Annotated[PositiveQuantity, Field(alias="defaultCPU")] = "250m"
    """CPU of such a pod."""
    default_memory: Bytes = "200Mi"
    """Memory of such a pod."""


class WaterLevelSpec(Wire):
    """Which nodes are levelled, how they are measured, and how that bears on placement."""

    node_selector: LabelSelector | None = None
    """Nodes of the group; absent: all nodes."""
    source: MetricsSource
    """Where measurements come from."""
    refresh_seconds: Annotated[int, Field(ge=5, le=HOUR_SECONDS)] = 30
    """Time between two readings."""
    windows: list[UsageWindow] = Field(
        default=[
            UsageWindow(duration="15m", weight=5),
            UsageWindow(duration="1h", weight=3),
            UsageWindow(duration="1d", weight=2),
        ],
        min_length=1,
        max_length=3,
        json_schema_extra=list_map("duration"),
    )
    """Spans of time over which use is averaged, each once."""
    target: Target = Target(mode="Dynamic", min_weight=0.2)
    """The level that nodes are packed towards and not beyond."""
    overload_limits: OverloadLimits | None = None
    """Levels above which a node takes no new pod; absent: none."""
    staleness_seconds: Annotated[int, Field(ge=10, le=24 * HOUR_SECONDS)] = 900
    """Age above which a measurement is stale: longer than metrics are late, with one that is missed."""
    crane_annotations: bool = False
    """Whether nodes get the annotations of crane-scheduler too."""
    pod_estimation: PodEstimation = PodEstimation()
    """Use assumed of a pod that has no history, no limit and no request."""

    rules = (
        Rule(
            "self.stalenessSeconds >= self.refreshSeconds",
            "stalenessSeconds must be at least refreshSeconds",
            field=".stalenessSeconds",
        ),
    )


class UsageLevel(StatusWire):
    """Use of one resource over the measured nodes in the shortest window, in percent of their capacity."""

    mean: MeasuredPercent
    """Mean over the nodes."""
    min: MeasuredPercent
    """Lowest node."""
    max: MeasuredPercent
    """Highest node."""
    standard_deviation: MeasuredPercent
    """Standard deviation between the nodes, in points."""
    target: MeasuredPercent
    """The level that nodes are packed towards."""


class WaterLevelStatus(StatusWire):
    """Level of the group as it was when it last moved by a point."""

    observed_generation: Generation | None = None
    """Generation of the spec that the status is about; -1 before the first reading."""
    cpu: UsageLevel | None = None
    """Level of CPU."""
    memory: UsageLevel | None = None
    """Level of memory."""
    nodes_measured: NodeCount | None = None
    """Nodes with a fresh measurement."""
    nodes_stale: NodeCount | None = None
    """Nodes whose measurement is too old."""
    nodes_missing: NodeCount | None = None
    """Nodes without a measurement."""
    nodes_invalid: NodeCount | None = None
    """Nodes whose measurement was refused, such as NaN or more than 100 %."""
    sampled_at: Timestamp | None = None
    """Time of the newest measurement when the status was written."""
    conditions: Conditions = Field(default_factory=list)
    """Ready and MetricsStale."""
