"""Karmada's side of the scheduler-estimator protocol: encoded requests, certificates and a client."""

import asyncio
import shutil
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from grpclib.client import Channel, UnaryUnaryMethod
from grpclib.encoding.base import CodecBase

from devcluster.keys import Keys
from devcluster.loopback import HOST
from tidelock.integrations.karmada.protobuf import Message
from tidelock.integrations.karmada.server import SERVICE
from tidelock.integrations.karmada.transport import AUTHORITY, CERTIFICATE, KEY

CLUSTER = "member-1"

_SEVEN_BITS = 0x7F
_WORD = 2**64


def number(field: int, value: int) -> bytes:
    """Encode a field with a number, which may be negative."""
    return _varint(field << 3) + _varint(value % _WORD)


def data(field: int, value: bytes | str) -> bytes:
    """Encode a field with bytes, a text or a message."""
    encoded = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(encoded)) + encoded


def entries(field: int, values: Mapping[str, bytes | str]) -> bytes:
    """Encode a map."""
    return b"".join(data(field, data(1, key) + data(2, value)) for key, value in values.items())


def quantities(field: int, amounts: Mapping[str, str]) -> bytes:
    """Encode a map of quantities."""
    return entries(field, {name: data(1, amount) for name, amount in amounts.items()})


def replica(amounts: Mapping[str, str], claim: bytes = b"", namespace: str = "") -> bytes:
    """Encode ReplicaRequirements as Karmada 1.18 does: amounts as messages and as their bytes."""
    nodes = data(1, claim) if claim else b""
    return (
        nodes + quantities(2, amounts) + (data(3, namespace) if namespace else b"") + quantities(5, amounts)
    )


def component(name: str, replicas: int, amounts: Mapping[str, str], claim: bytes = b"") -> bytes:
    """Encode a Component."""
    nodes = data(1, claim) if claim else b""
    requirements = nodes + quantities(2, amounts) + quantities(4, amounts)
    return data(1, name) + data(2, requirements) + number(3, replicas)


def assumed(*components: bytes, namespace: str = "shop") -> bytes:
    """Encode an AssumedWorkload."""
    return data(1, namespace) + b"".join(data(2, each) for each in components)


def replicas_request(requirements: bytes, *workloads: bytes, cluster: str = CLUSTER) -> bytes:
    """Encode a MaxAvailableReplicasRequest."""
    return data(1, cluster) + data(2, requirements) + b"".join(data(3, each) for each in workloads)


def sets_request(components: Iterable[bytes], *workloads: bytes, cluster: str = CLUSTER) -> bytes:
    """Encode a MaxAvailableComponentSetsRequest."""
    wanted = b"".join(data(2, each) for each in components)
    return data(1, cluster) + wanted + data(3, "shop") + b"".join(data(4, each) for each in workloads)


def unschedulable_request(kind: str, namespace: str, name: str, seconds: float = 0.0) -> bytes:
    """Encode an UnschedulableReplicasRequest about a workload of the group apps."""
    resource = data(1, "apps/v1") + data(2, kind) + data(3, namespace) + data(4, name)
    return data(1, CLUSTER) + data(2, resource) + number(3, int(seconds * 1e9))


def tls_folder(folder: Path, keys: Keys) -> Path:
    """Write the files of the server's side, and return their folder."""
    folder.mkdir(exist_ok=True)
    for name, source in (
        (CERTIFICATE, keys.server_certificate),
        (KEY, keys.server_key),
        (AUTHORITY, keys.authority),
    ):
        shutil.copyfile(source, folder / name)
    return folder


class EstimatorClient:
    """A client of an estimator on this machine."""

    def __init__(self, port: int, keys: Keys, *, authenticates: bool = True) -> None:
        """Connect with the first request, with a certificate of the keys' authority or without one."""
        tls = ssl.create_default_context(cafile=str(keys.authority))
        tls.set_alpn_protocols(["h2"])
        if authenticates:
            tls.load_cert_chain(keys.admin_certificate, keys.admin_key)
        self._channel = Channel(HOST, port, ssl=tls, codec=_Bytes())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connection at once, as an orderly end of TLS can outlast the event loop."""
        protocol = self._channel._protocol  # noqa: SLF001 -- grpclib only knows the orderly end
        if protocol is not None and not protocol.connection.is_closing():
            protocol.connection._transport.abort()  # noqa: SLF001
        self._channel.close()
        await asyncio.sleep(0)

    def method(self, name: str) -> UnaryUnaryMethod[bytes, bytes]:
        """Return a method of the service, from bytes to bytes."""
        return UnaryUnaryMethod(self._channel, f"/{SERVICE}/{name}", bytes, bytes)

    async def ask(self, method: str, request: bytes, seconds: float = 30.0) -> int:
        """Return the number in the answer. Raises GRPCError for a refusal."""
        return Message(await self.method(method)(request, timeout=seconds)).integer(1, "answer")

    async def replicas(self, requirements: bytes, *workloads: bytes, cluster: str = CLUSTER) -> int:
        """Ask how many replicas fit."""
        return await self.ask(
            "MaxAvailableReplicas", replicas_request(requirements, *workloads, cluster=cluster)
        )

    async def sets(self, *components: bytes, assume: Iterable[bytes] = ()) -> int:
        """Ask how many sets of components fit."""
        return await self.ask("MaxAvailableComponentSets", sets_request(components, *assume))

    async def unschedulable(self, kind: str, namespace: str, name: str, seconds: float = 0.0) -> int:
        """Ask how many replicas of a workload wait for a node."""
        request = unschedulable_request(kind, namespace, name, seconds)
        return await self.ask("GetUnschedulableReplicas", request)


class _Bytes(CodecBase):
    """Leaves messages as the bytes that they are."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:  # noqa: ARG002 -- bytes are bytes
        """Return the message itself."""
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> bytes:  # noqa: ARG002
        """Return the message itself."""
        return data


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > _SEVEN_BITS:
        encoded.append(value & _SEVEN_BITS | 0x80)
        value >>= 7
    return bytes((*encoded, value))
