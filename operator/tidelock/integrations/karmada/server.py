"""Karmada's scheduler-estimator protocol: how many more replicas this cluster takes.

The service is that of pkg/estimator/service/service.proto of Karmada 1.18. Estimates are computed between the
decisions, from the state that decisions use, one in a turn of the event loop. So they delay decisions as
little as quotes do.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from tidelock.binders.endpoint import Endpoint
from tidelock.clock import Clock
from tidelock.integrations.karmada import transport
from tidelock.integrations.karmada.protobuf import FieldError, encode_count
from tidelock.integrations.karmada.requests import read_replicas, read_sets, read_unschedulable
from tidelock.integrations.karmada.unschedulable import (
    UnknownWorkloadError,
    UnsupportedKindError,
    count_unschedulable,
)
from tidelock.isolation import Isolation
from tidelock.kube.client import KubeClient
from tidelock.kube.errors import ApiError
from tidelock.model.failures import failure_text
from tidelock.scheduler.core.decider import Decider
from tidelock.telemetry import Telemetry

logger = logging.getLogger(__name__)

SERVICE = "github.com.karmada_io.karmada.pkg.estimator.service.Estimator"
ENDPOINT = "tidelock-estimator"
"""Name of the Service that leads to the leader."""

# Seconds between two looks at the certificate's files and the endpoint, and before another try.
_LOOK = 60.0
_RETRY = 2.0

_STATUSES: Mapping[type[Exception], Status] = MappingProxyType(
    {
        FieldError: Status.INVALID_ARGUMENT,
        UnsupportedKindError: Status.UNIMPLEMENTED,
        UnknownWorkloadError: Status.NOT_FOUND,
        ApiError: Status.UNAVAILABLE,
    }
)


class EstimatorServer:
    """Answers Karmada for as long as it runs.

    Args:
        decider: the state of the scheduler, which stays as it is.
        client: lists pods that wait for a node.
        endpoint: the address under which others find this process.
        clock: the process' clock.
        telemetry: counts and measures the answers.
        isolation: takes the faults that cost one answer.
        cluster: the name under which Karmada knows this cluster.
        folder: the files of the certificates, as `transport` names them.
        address: listening address.
        port: its port.
        ready: returns whether this process leads, and has all data for its answers.

    """

    def __init__(
        self,
        decider: Decider,
        client: KubeClient,
        endpoint: Endpoint,
        clock: Clock,
        telemetry: Telemetry,
        isolation: Isolation,
        *,
        cluster: str,
        folder: Path,
        address: str,
        port: int,
        ready: Callable[[], bool],
    ) -> None:
        self._decider = decider
        self._client = client
        self._endpoint = endpoint
        self._clock = clock
        self._telemetry = telemetry
        self._isolation = isolation
        self._cluster = cluster
        self._folder = folder
        self._address = address
        self._port = port
        self._ready = ready
        self._turn = asyncio.Lock()
        estimates = {
            "MaxAvailableReplicas": self._replicas,
            "MaxAvailableComponentSets": self._sets,
            "GetUnschedulableReplicas": self._unschedulable,
        }
        self._methods = {
            f"{SERVICE}/{name}": partial(self._respond, name, estimate)
            for name, estimate in estimates.items()
        }

    async def run(self) -> NoReturn:
        """Serve forever, once there is a certificate. Other files end all connections and count from then on.

        Raises:
            ListenError: the port is taken, or the address is not one of this machine's.

        """
        while True:
            files = await asyncio.to_thread(self._read_files)
            try:
                tls = transport.mutual_tls(self._folder)
            except OSError as error:
                fields = {"folder": str(self._folder), "error": error.strerror or str(error)}
                logger.warning("Karmada can't connect without certificates", extra=fields)
                await asyncio.sleep(_RETRY)
                continue
            async with transport.serving(
                self._methods, self._address, self._port, option="--karmada-port", tls=tls
            ):
                while files == await asyncio.to_thread(self._read_files):  # noqa: ASYNC110 -- files
                    await asyncio.sleep(_LOOK if await self._announce() else _RETRY)

    def _read_files(self) -> list[bytes]:
        """Return the content of each file, empty if there is no such file."""
        files = (self._folder / name for name in (transport.CERTIFICATE, transport.KEY, transport.AUTHORITY))
        return [file.read_bytes() if file.is_file() else b"" for file in files]

    async def _announce(self) -> bool:
        """Direct requests to this process, and return whether that succeeded."""
        try:
            await self._endpoint.announce()
        except ApiError as error:
            self._telemetry.api_errors.labels("estimator", type(error).__name__).inc()
            logger.warning("Karmada can't find this process yet", extra={"error": str(error)})
            return False
        return True

    # Requests.

    async def _respond(self, name: str, estimate: Callable[[bytes], Awaitable[int]], data: bytes) -> bytes:
        """Answer a request, or raise GRPCError."""
        started = self._clock.monotonic()
        status = Status.CANCELLED
        try:
            answer = encode_count(await estimate(data))
            status = Status.OK
        except Exception as error:  # noqa: BLE001 -- it costs one answer
            failure = self._failure(error)
            status = failure.status
            raise failure from None
        finally:
            self._telemetry.estimates.labels(name, status.name).inc()
            self._telemetry.estimate_duration.labels(name).observe(self._clock.monotonic() - started)
        return answer

    def _failure(self, error: Exception) -> GRPCError:
        """Return the answer to a request that failed, and note an exception that no request should cause."""
        if isinstance(error, GRPCError):
            return error
        for kind, status in _STATUSES.items():
            if isinstance(error, kind):
                return GRPCError(status, str(error))
        self._isolation.part_failed("estimate", error)
        return GRPCError(Status.INTERNAL, failure_text(error))

    async def _replicas(self, data: bytes) -> int:
        request = read_replicas(data)
        estimator, profile = self._decider.estimator, self._decider.profile

        def decide(now: float) -> int:
            return estimator.replicas(profile, request.pod, request.assumed, now)

        return await self._decide(request.cluster, decide)

    async def _sets(self, data: bytes) -> int:
        request = read_sets(data)
        estimator, profile = self._decider.estimator, self._decider.profile

        def decide(now: float) -> int:
            return estimator.sets(profile, request.components, request.assumed, now)

        return await self._decide(request.cluster, decide)

    async def _unschedulable(self, data: bytes) -> int:
        request = read_unschedulable(data)
        self._check(request.cluster)
        return await count_unschedulable(self._client, self._decider.objects, request, self._clock.now())

    async def _decide(self, cluster: str, decide: Callable[[float], int]) -> int:
        """Compute one estimate in a turn of the event loop, as decisions go on between two of them."""
        async with self._turn:
            self._check(cluster)
            found = decide(self._clock.now())
            await asyncio.sleep(0)
        return found

    def _check(self, cluster: str) -> None:
        """Raise GRPCError if this process must not answer for a cluster now."""
        if cluster != self._cluster:
            text = f"cluster: this is {self._cluster}, not {cluster}"
            raise GRPCError(Status.FAILED_PRECONDITION, text)
        if not self._ready():
            text = "not ready: not leading, or the cluster is not read yet"
            raise GRPCError(Status.UNAVAILABLE, text)
