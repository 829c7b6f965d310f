from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tidelock.load.promql import Access, PrometheusClient, Vector
from tidelock.load.source import FailureReason, SourceError
from tidelock.model.meta import Key
from tidelock.simulation.recorder import DAY, REQUIRED, RecordedSpan, Recorder
from tidelock.simulation.recording import PodIdentity, RecordedPod, Recording
from tidelock.simulation.traces import TraceError

SPAN = RecordedSpan(start=0, step=300, steps=4)
LABELS = {"namespace": "shop", "pod": "web-1"}
WEB = Key("shop", "web-1")


class ScriptedClient(PrometheusClient):
    """Answers each query with the series whose metric the text of the query has."""

    def __init__(self, **answers: list[dict[str, Any]]) -> None:
        self.answers = {metric: [{"metric": {}, "value": [0, "1"]}] for metric in REQUIRED} | answers
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.warnings: tuple[str, ...] = ()
        self.renamed = False

    async def access(self) -> Access:
        return Access()

    async def query(self, path: str, access: Access, form: Mapping[str, str]) -> Vector:  # noqa: ARG002 -- no server
        self.asked.append((path, form))
        name = next((name for name in self.answers if f"{name}{{" in form["query"]), "")
        found = self.answers.get(name, [])
        if "exported_pod" in form["query"] and not self.renamed:
            found = []
        return Vector([msgspec.Raw(msgspec.json.encode(each)) for each in found], self.warnings)


def over_time(labels: dict[str, str], *values: tuple[int, str]) -> dict[str, Any]:
    return {"metric": labels, "values": [list(each) for each in values]}


def once(labels: dict[str, str], value: str) -> dict[str, Any]:
    return {"metric": labels, "value": [1200, value]}


async def read(client: ScriptedClient, span: RecordedSpan = SPAN, matchers: str = "") -> Recording:
    return await Recorder(client, "server", span, matchers, lambda _: None).read()


async def test_the_answers_become_a_recording() -> None:
    info = {"uid": "u1", "node": "node-a", "created_by_kind": "ReplicaSet", "created_by_name": "web-7d9f"}
    cpu = {"node": "node-a", "resource": "cpu"}
    client = ScriptedClient(
        kube_node_status_allocatable=[over_time(cpu, (300, "4"), (1200, "8"))],
        kube_pod_info=[over_time(LABELS | info, (600, "1"), (1200, "1"))],
        container_cpu_usage_seconds_total=[over_time(LABELS, (600, "0.5"), (900, "NaN"), (1200, "0.75"))],
        kube_pod_container_resource_requests=[once(LABELS | {"resource": "cpu"}, "0.25")],
        kube_pod_container_resource_limits=[once(LABELS | {"resource": "memory"}, "1024")],
        container_memory_working_set_bytes=[once(LABELS, "512")],
        kube_pod_created=[once(LABELS | {"uid": "u1"}, "450")],
        kube_replicaset_owner=[
            once({"namespace": "shop", "replicaset": "web-7d9f", "owner_name": "web"}, "1")
        ],
    )

    recording = await read(client)

    identity = PodIdentity("shop", "web-1", "u1")
    assert str(recording.nodes["node-a"]["cpu"].tolist()) == "[4.0, nan, nan, 8.0]"
    assert recording.pods == {identity: RecordedPod("node-a", "ReplicaSet", "web-7d9f", 1, 3)}
    assert str(recording.cpu[WEB].tolist()) == "[nan, 0.5, nan, 0.75]"
    assert recording.requests == {WEB: {"cpu": 0.25}}
    assert recording.limits == {WEB: {"memory": 1024.0}}
    assert recording.memory == {WEB: 512.0}
    assert recording.created == {identity: 450.0}
    assert recording.deployments == {Key("shop", "web-7d9f"): "web"}
    assert len(client.asked) == SPAN.queries


async def test_a_pod_without_a_controller_is_its_own_workload() -> None:
    info = LABELS | {"node": "node-a", "created_by_kind": "<none>", "created_by_name": "<none>"}
    recording = await read(ScriptedClient(kube_pod_info=[over_time(info, (300, "1"))]))

    assert recording.pods == {PodIdentity("shop", "web-1", ""): RecordedPod("node-a", "Pod", "", 0, 0)}


async def test_missing_metrics_are_named_with_what_to_install() -> None:
    client = ScriptedClient(kube_pod_info=[], container_cpu_usage_seconds_total=[])

    with pytest.raises(TraceError) as refused:
        await read(client)

    assert str(refused.value) == (
        "server has no present series of kube_pod_info: install kube-state-metrics, and let Prometheus "
        "scrape it; container_cpu_usage_seconds_total: let Prometheus scrape /metrics/cadvisor of the "
        "kubelets, with the labels namespace, pod and container"
    )


async def test_pods_under_another_label_are_refused() -> None:
    """Without honor_labels, the labels namespace and pod are those of kube-state-metrics itself."""
    client = ScriptedClient()
    client.renamed = True

    with pytest.raises(TraceError, match=r"honor_labels: true$"):
        await read(client)


async def test_matchers_are_part_of_each_selector() -> None:
    client = ScriptedClient()
    await read(client, matchers='cluster="east"')

    assert all(form["query"].count("{") == form["query"].count('cluster="east"') for _, form in client.asked)


async def test_warnings_are_kept() -> None:
    client = ScriptedClient()
    client.warnings = ("a store is down",)

    assert "pods: a store is down" in (await read(client)).warnings


async def test_a_malformed_item_is_an_error_of_the_source() -> None:
    with pytest.raises(SourceError) as refused:
        await read(ScriptedClient(kube_pod_info=[{"metric": 1}]))

    assert refused.value.reason is FailureReason.MALFORMED


async def test_a_week_is_read_by_days() -> None:
    client = ScriptedClient()
    span = RecordedSpan.until(10 * DAY + 100.0, 7, 300)
    await read(client, span)

    spans = [
        (form["start"], form["end"], form["step"]) for path, form in client.asked if path == "query_range"
    ]
    assert spans[0] == (f"{3 * DAY + 300}", f"{4 * DAY}", "300")
    assert spans[-1][1] == f"{10 * DAY}"
    assert len(spans) == 7 * 3


@pytest.mark.parametrize(("step", "most"), [(300, 288), (5, 11_000), (2 * DAY, 1)])
def test_a_chunk_is_a_day_or_what_a_server_answers(step: int, most: int) -> None:
    span = RecordedSpan.until(100.0 * DAY, 14, step)
    chunks = list(span.chunks())

    assert chunks[0].steps == most
    assert sum(chunk.steps for chunk in chunks) == span.steps
    assert (chunks[0].start, chunks[-1].end) == (span.start, span.end)


@pytest.mark.parametrize(("days", "step"), [(0.0, 300), (1.0, 0), (0.001, 300)])
def test_an_empty_span_is_refused(days: float, step: int) -> None:
    with pytest.raises(ValueError, match=r"^--(days|step): "):
        RecordedSpan.until(0.0, days, step)
