"""Makes the sources of WaterLevels. The load loop imports this module, and aiohttp with it, for the first."""

import aiohttp

from tidelock.cluster.cache import Cache
from tidelock.kube.client import KubeClient
from tidelock.load.access import SecretAccess
from tidelock.load.metrics_server import MetricsServerSource
from tidelock.load.prometheus import PrometheusSource, PromQlQueries
from tidelock.load.promql import anonymous_access
from tidelock.load.source import Source
from tidelock.model.api.water_level import Prometheus, WaterLevelSpec
from tidelock.model.quantities import Resources


class Sources:
    """Makes sources, which share an HTTP client."""

    def __init__(self, client: KubeClient, cache: Cache) -> None:
        self._client = client
        self._columns = cache.columns
        self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())

    def make(self, spec: WaterLevelSpec) -> Source:
        """Return the source that a WaterLevel names."""
        server = spec.source.prometheus
        if server is None:
            return MetricsServerSource(self._client, self._capacity)
        secret = server.auth_secret_ref
        return PrometheusSource(
            self._session,
            server.address,
            SecretAccess(self._client, secret) if secret else anonymous_access,
            lambda: self._columns.row_of,
            _queries(server),
            timeout_seconds=server.timeout_seconds,
            node_label=server.node_label or "",
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.close()

    def _capacity(self, name: str) -> Resources | None:
        row = self._columns.row_of.get(name)
        return None if row is None else self._columns.nodes[row].capacity


def _queries(server: Prometheus) -> PromQlQueries:
    if server.queries is None:
        return PromQlQueries()
    given = server.queries.model_dump(exclude_none=True, by_alias=False)
    return PromQlQueries(**given)
