"""What node-exporter and cAdvisor would say of nodes and pods that exist on paper."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cluster.live import Live
from cluster.world import World
from tidelock.kube.client import WATERLEVELS

HOST = "127.0.0.1"
# The default asks for five minutes of a pod.
_POD_CPU = "sum by (namespace, pod) (rate(container_cpu_usage_seconds_total[20s]))"
_MEMORY = 16 * 2**30


@dataclass
class Exporter:
    """Use that a test sets and Prometheus scrapes.

    Attributes:
        address: host:port of the exporter.
        nodes: parts of CPU and memory in use, by node; NaN is told as it is.
        pods: cores and bytes in use, by namespace and name.

    """

    address: str
    nodes: dict[str, tuple[float, float]] = field(default_factory=dict)
    pods: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seconds: dict[tuple[str, ...], float] = field(default_factory=dict)
    _last: float = field(default_factory=time.monotonic)

    def render(self) -> str:
        """Write the metrics as they are now; counters go on from the last time."""
        with self._lock:
            now = time.monotonic()
            elapsed, self._last = now - self._last, now
            return "\n".join([*self._node_lines(elapsed), *self._pod_lines(elapsed), ""])

    def _node_lines(self, elapsed: float) -> Iterator[str]:
        for name, (cpu, memory) in self.nodes.items():
            labels = f'instance="{name}:9100",job="node-exporter"'
            for mode, part in (("idle", 1 - cpu), ("user", cpu)):
                seconds = self._count((name, mode), part * elapsed)
                yield f'node_cpu_seconds_total{{{labels},cpu="0",mode="{mode}"}} {seconds}'
            yield f"node_memory_MemTotal_bytes{{{labels}}} {_MEMORY}"
            yield f"node_memory_MemAvailable_bytes{{{labels}}} {(1 - memory) * _MEMORY}"

    def _pod_lines(self, elapsed: float) -> Iterator[str]:
        for (namespace, name), (cores, memory) in self.pods.items():
            labels = f'namespace="{namespace}",pod="{name}",container="main"'
            seconds = self._count((namespace, name), cores * elapsed)
            yield f"container_cpu_usage_seconds_total{{{labels}}} {seconds}"
            yield f"container_memory_working_set_bytes{{{labels}}} {memory}"

    def _count(self, series: tuple[str, ...], more: float) -> float:
        self._seconds[series] = self._seconds.get(series, 0.0) + more
        return self._seconds[series]


@contextmanager
def exporting() -> Iterator[Exporter]:
    """Serve metrics on loopback while the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = exporter.render().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        exporter = Exporter(f"{HOST}:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield exporter
        finally:
            server.shutdown()
            thread.join()


def water_level(world: World, url: str, **spec: object) -> Live:
    """Create a WaterLevel of a test's own nodes, which reads a Prometheus every five seconds."""
    manifest = {
        "apiVersion": WATERLEVELS.api_version,
        "kind": WATERLEVELS.kind,
        "metadata": {"name": world.namespace},
        "spec": {
            "nodeSelector": {"matchLabels": world.selector},
            "source": {"prometheus": {"address": url, "queries": {"podCPU": _POD_CPU}}},
            "refreshSeconds": 5,
            "stalenessSeconds": 20,
        }
        | spec,
    }
    return Live(world.api, WATERLEVELS, world.api.create(WATERLEVELS.collection(), manifest))
