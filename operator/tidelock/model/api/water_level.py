"""Wire types of WaterLevel: placement of new pods by the measured use of nodes."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tidelock.model.api.cron_schedule import CronSchedule, TimeZone
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
from tidelock.model.cron import Timetable, read_expression, read_zone
from tidelock.model.instants import format_instant
from tidelock.model.tides import TideTimes, first_overlap

HOUR_SECONDS = 3600

PromQl = Annotated[str, Field(min_length=1, max_length=4096)]
OverloadLimit = Annotated[int, Field(ge=1, le=100)]
NodeCount = Annotated[int, Field(ge=0, le=1_000_000)]
MeasuredPercent = Annotated[int, Field(ge=0, le=1000)]


class Queries(Wire):
    """PromQL queries that replace the defaults for node-exporter and cAdvisor."""

    node_cpu: Annotated[PromQl | None, Field(alias="nodeCPU")] = None
    """PromQL query for the CPU use of each node, as a fraction of its capacity: 0 to 1."""
    node_memory: PromQl | None = None
    """PromQL query for the memory use of each node, as a fraction of its capacity: 0 to 1."""
    node_time: PromQl | None = None
    """PromQL query for the time of each node's last sample, in seconds since 1970. Without an answer, samples
    count as new."""
    node_names: PromQl | None = None
    """PromQL query for series with labels that map an instance (or internal_ip) to a node (or nodename)."""
    pod_cpu: Annotated[PromQl | None, Field(alias="podCPU")] = None
    """PromQL query for the CPU use of each pod in cores, with the labels namespace and pod."""
    pod_memory: PromQl | None = None
    """PromQL query for the memory use of each pod in bytes, with the labels namespace and pod."""


class SecretReference(Wire):
    """A Secret with a key `token`, or with `username` and `password`, and optionally with `ca.crt`."""

    namespace: DnsLabel
    """Namespace of the Secret."""
    name: Subdomain
    """Name of the Secret."""


class Prometheus(Wire):
    """A server that speaks the Prometheus HTTP API."""

    address: Annotated[str, Field(max_length=2048, pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$")]
    """Base URL, such as http://prometheus.monitoring:9090. It must not contain credentials, which other users
    could read."""
    queries: Queries | None = None
    """PromQL queries that replace the defaults for node-exporter and cAdvisor."""
    node_label: Annotated[str, Field(max_length=256, pattern="^[a-zA-Z_][a-zA-Z0-9_]*$")] | None = None
    """Label that names the node of a series. Absent: node, nodename, kubernetes_node, instance or host."""
    timeout_seconds: Annotated[int, Field(ge=1, le=300)] = 10
    """Timeout of one query in seconds."""
    auth_secret_ref: SecretReference | None = None
    """Secret with the credentials and the trusted certificate authorities. Absent: no authentication."""


class MetricsServer(Wire):
    """The resource metrics API, metrics.k8s.io, which has only the latest measurement."""


class MetricsSource(Wire):
    """Source of the measurements."""

    prometheus: Prometheus | None = None
    """Server that speaks the Prometheus HTTP API. Exactly one source is required."""
    metrics_server: MetricsServer | None = None
    """The resource metrics API. Exactly one source is required."""

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
    """Level towards which nodes are packed, and not beyond."""

    mode: Literal["Static", "Dynamic"]
    """Static: a fixed percentage. Dynamic: computed from the mean and the lowest level of the group."""
    percent: Percent | None = None
    """Level in percent, for the mode Static."""
    min_weight: Annotated[float, Field(ge=0, le=100)] | None = None
    """Weight w of the lowest level, for the mode Dynamic: (mean + w * min) / (1 + w). Absent: 0, which is the
    mean itself."""

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
    """Limit for CPU. Absent: no limit."""
    memory_percent: OverloadLimit | None = None
    """Limit for memory. Absent: no limit."""


class PodEstimation(Wire):
    """Assumed use of a pod that has no history, no limit and no request."""

    default_cpu: Annotated[PositiveQuantity, Field(alias="defaultCPU")] = "250m"
    """Assumed CPU use of such a pod."""
    default_memory: Bytes = "200Mi"
    """Assumed memory use of such a pod."""


class Tide(Wire):
    """A recurring span of time with other settings, such as each night."""

    name: DnsLabel
    """Name of the tide, such as night."""
    start: CronSchedule
    """Times at which the tide begins, in the format of CronJobs: minute, hour, day of month, month and day of
    week."""
    end: CronSchedule
    """Times at which the tide ends, in the format of CronJobs. The first one after the start counts."""
    time_zone: TimeZone = "Etc/UTC"
    """Time zone of start and end: a name of the IANA database, such as Europe/Berlin."""
    target: Target | None = None
    """Target during the tide. Absent: that of the spec."""
    overload_limits: OverloadLimits | None = None
    """Limits during the tide, which replace all those of the spec. Absent: those of the spec."""
    weight_percent: Percent | None = None
    """Weight during the tide. Absent: that of the spec."""

    rules = (
        Rule(
            "has(self.target) || has(self.overloadLimits) || has(self.weightPercent)",
            "a tide changes at least one of target, overloadLimits and weightPercent",
            reason="FieldValueRequired",
        ),
    )

    @property
    def times(self) -> TideTimes:
        """The instants at which the tide begins and ends."""
        zone = read_zone(self.time_zone)
        starts, ends = (Timetable(read_expression(each), zone) for each in (self.start, self.end))
        return TideTimes(starts, ends)


def _apart(tides: Sequence[Tide]) -> Sequence[Tide]:
    """Refuse tides that overlap, or have the same name."""
    names = [tide.name for tide in tides]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ValueError(f"{name!r} (tides[{index}].name) is the name of another tide")
    overlap = first_overlap([tide.times for tide in tides])
    if overlap is not None:
        raise ValueError(
            f"{names[overlap.second]!r} (tides[{overlap.second}].start) begins before the end of "
            f"{names[overlap.first]!r} (tides[{overlap.first}].end), such as at {format_instant(overlap.at)}"
        )
    return tides


class WaterLevelSpec(Wire):
    """Nodes of the group, source of their measurements, and placement by these measurements."""

    node_selector: LabelSelector | None = None
    """Labels that select the nodes of the group. Absent: all nodes."""
    source: MetricsSource
    """Source of the measurements."""
    refresh_seconds: Annotated[int, Field(ge=5, le=HOUR_SECONDS)] = 30
    """Time in seconds between two readings."""
    windows: list[UsageWindow] = Field(
        # Without a validation, for which the import would build the model's validator.
        default=[
            UsageWindow.model_construct(duration="15m", weight=1),
            UsageWindow.model_construct(duration="1h", weight=1),
            UsageWindow.model_construct(duration="1d", weight=1),
        ],
        min_length=1,
        max_length=3,
        json_schema_extra=list_map("duration"),
    )
    """Time windows over which use is averaged, each at most once."""
    target: Target = Target.model_construct(mode="Dynamic", min_weight=1)
    """Level towards which nodes are packed, and not beyond."""
    overload_limits: OverloadLimits | None = None
    """Levels above which a node takes no new pod. Absent: no limits."""
    weight_percent: Percent = 100
    """Part of WaterLevelBalance's weight that counts, in percent. 0: use has no effect on scores, and limits
    still apply."""
    learn_weight: bool = False
    """True: the weight is multiplied with the part of the variance of use between pods that requests do not
    explain. So use counts less where requests already predict it."""
    tides: (
        Annotated[
            list[Tide],
            Field(min_length=1, max_length=8, json_schema_extra=list_map("name")),
            AfterValidator(_apart),
        ]
        | None
    ) = None
    """Recurring spans of time with other settings, which must not overlap. The rest of the time, the settings
    of the spec apply."""
    # A source answers with samples that are up to 300 s old: Prometheus looks back that far. A reading every
    # 30 s, of which one may be missed, adds 60. Unchanged levels are written when they are half as old as the
    # limit, so the limit must be at least twice these 360 s.
    staleness_seconds: Annotated[int, Field(ge=10, le=24 * HOUR_SECONDS)] = 900
    """Age in seconds above which a measurement is stale. It must exceed the usual delay of metrics by at
    least one missed reading."""
    crane_annotations: bool = False
    """True: nodes also get the annotations of crane-scheduler."""
    pod_estimation: PodEstimation = PodEstimation.model_construct()
    """Assumed use of a pod that has no history, no limit and no request."""

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
    """Mean use over the nodes, in percent."""
    min: MeasuredPercent
    """Use of the least used node, in percent."""
    max: MeasuredPercent
    """Use of the most used node, in percent."""
    standard_deviation: MeasuredPercent
    """Standard deviation of the use between the nodes, in percentage points."""
    target: MeasuredPercent
    """Level towards which nodes are packed, in percent."""
    limit: OverloadLimit | None = None
    """Level above which a node takes no new pod, in percent. Absent: no limit."""


class WaterLevelStatus(StatusWire):
    """Level of the group when it last moved by a percentage point."""

    observed_generation: Generation | None = None
    """Generation of the spec that the status describes, or -1 before the first reading."""
    tide: DnsLabel | None = None
    """Name of the tide that is in force. Absent: none."""
    next_tide_change: Timestamp | None = None
    """Time at which a tide next begins or ends."""
    weight_percent: Percent | None = None
    """Part of the weight of WaterLevelBalance that counts at present, in percent."""
    unexplained_percent: Percent | None = None
    """Part of the variance of use between pods that their requests do not explain, in percent, for
    learnWeight. It is a mean over about an hour, of the resource with the larger part."""
    cpu: UsageLevel | None = None
    """Level of CPU use."""
    memory: UsageLevel | None = None
    """Level of memory use."""
    nodes_measured: NodeCount | None = None
    """Number of nodes with a fresh measurement."""
    nodes_stale: NodeCount | None = None
    """Number of nodes with a stale measurement."""
    nodes_missing: NodeCount | None = None
    """Number of nodes without a measurement."""
    nodes_invalid: NodeCount | None = None
    """Number of nodes with a refused measurement, such as NaN or more than 100 %."""
    sampled_at: Timestamp | None = None
    """Time of the newest measurement when the status was written."""
    conditions: Conditions = Field(default_factory=list)
    """Conditions of the group: Ready and MetricsStale."""
