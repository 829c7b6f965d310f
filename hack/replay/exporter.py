"""The metrics of node-exporter and cAdvisor for simulated nodes and pods."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from devcluster.loopback import HOST, running

SECONDS = 20
"""Range in seconds of the rates in `NODE_CPU` and `POD_CPU`."""
NODE_CPU = (
    f'1 - sum without (cpu, mode) (rate(node_cpu_seconds_total{{mode=~"idle|iowait"}}[{SECONDS}s]))'
    f" / sum without (cpu, mode) (rate(node_cpu_seconds_total[{SECONDS}s]))"
)
POD_CPU = f"sum by (namespace, pod) (rate(container_cpu_usage_seconds_total[{SECONDS}s]))"
"""Queries of a WaterLevel with a short range, as the default ones have five minutes."""
SETTLED_POD_CPU = (
    f"sum by (namespace, pod) (rate(container_cpu_usage_seconds_total[{SECONDS}s])"
    f" and container_cpu_usage_seconds_total offset {SECONDS}s)"
)
"""The same without pods that are younger than the range, as a rate is too low for them."""

_MEMORY = 16 * 2**30


@dataclass
class Exporter:
    """The use of nodes and pods, for Prometheus to scrape.

    Attributes:
        address: host:port of the exporter.
        nodes: parts of CPU and memory in use, by node. NaN is exported as NaN.
        pods: cores and bytes in use, by namespace and name.

    """

    address: str
    nodes: dict[str, tuple[float, float]] = field(default_factory=dict)
    pods: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seconds: dict[tuple[str, str], float] = field(default_factory=dict)
    _last: float = field(default_factory=time.monotonic)

    def show(
        self, nodes: dict[str, tuple[float, float]], pods: dict[tuple[str, str], tuple[float, float]]
    ) -> None:
        """Replace the use of all nodes and pods from now on."""
        with self._lock:
            self._settle()
            self.nodes, self.pods = nodes, pods

    def render(self) -> str:
        """Return the present metrics as text."""
        with self._lock:
            self._settle()
            return "\n".join([*self._node_lines(), *self._pod_lines(), ""])

    def _settle(self) -> None:
        """Advance the counters by the time since the last call."""
        now = time.monotonic()
        elapsed, self._last = now - self._last, now
        for name, (cpu, _) in self.nodes.items():
            self._count((name, "idle"), (1 - cpu) * elapsed)
            self._count((name, "user"), cpu * elapsed)
        for pod, (cores, _) in self.pods.items():
            self._count(pod, cores * elapsed)

    def _node_lines(self) -> Iterator[str]:
        for name, (_, memory) in self.nodes.items():
            labels = f'instance="{name}:9100",job="node-exporter"'
            for mode in ("idle", "user"):
                seconds = self._seconds.get((name, mode), 0.0)
                yield f'node_cpu_seconds_total{{{labels},cpu="0",mode="{mode}"}} {seconds}'
            yield f"node_memory_MemTotal_bytes{{{labels}}} {_MEMORY}"
            yield f"node_memory_MemAvailable_bytes{{{labels}}} {(1 - memory) * _MEMORY}"

    def _pod_lines(self) -> Iterator[str]:
        for (namespace, name), (_, memory) in self.pods.items():
            labels = f'namespace="{namespace}",pod="{name}",container="main"'
            seconds = self._seconds.get((namespace, name), 0.0)
            yield f"container_cpu_usage_seconds_total{{{labels}}} {seconds}"
            yield f"container_memory_working_set_bytes{{{labels}}} {memory}"

    def _count(self, series: tuple[str, str], more: float) -> None:
        self._seconds[series] = self._seconds.get(series, 0.0) + more


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
            with suppress(ConnectionError):  # the scrape has timed out
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write no log."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    exporter = Exporter(f"{HOST}:{server.server_port}")
    with running(server):
        yield exporter
