"""Credentials for a Prometheus server: from a Secret that is read again for each reading, or from files."""

import base64
import binascii
import ssl
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tidelock.kube.client import SECRETS, KubeClient
from tidelock.kube.errors import ApiError
from tidelock.load.promql import Access
from tidelock.load.source import FailureReason, SourceError
from tidelock.model.api.water_level import SecretReference
from tidelock.model.nesting import depth_bounded

_KEYS = ("token", "username", "password", "ca.crt")


class _Secret(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


_decode_secret = depth_bounded(msgspec.json.Decoder(_Secret).decode)


class SecretAccess:
    """Reads a Secret with `token`, or `username` and `password`, and `ca.crt` with trusted authorities."""

    def __init__(self, client: KubeClient, reference: SecretReference) -> None:
        self._client = client
        self._reference = reference
        self._authorities = b""
        self._tls: ssl.SSLContext | None = None

    async def __call__(self) -> Access:
        """Return the credentials in the Secret as it is now, or raise SourceError."""
        name = f"Secret {self._reference.namespace}/{self._reference.name}"
        try:
            answer = await self._client.get(SECRETS.item(self._reference.name, self._reference.namespace))
            data = _decode_secret(answer).data
            keys = {key: base64.b64decode(value, validate=True) for key, value in data.items()}
            return Access(_headers(keys), self._context(keys.get("ca.crt", b"")))
        except (ApiError, binascii.Error, ValueError, OSError) as error:
            raise SourceError(FailureReason.UNAUTHENTICATED, f"{name}: {error}") from error

    def _context(self, authorities: bytes) -> ssl.SSLContext | None:
        if authorities != self._authorities:
            self._authorities, self._tls = authorities, _trusting(authorities)
        return self._tls


def folder_access(folder: Path) -> Access:
    """Return the credentials in a folder of files with the names of a Secret's keys, or raise SourceError."""
    try:
        files = {name: folder / name for name in _KEYS}
        keys = {name: file.read_bytes().rstrip(b"\n") for name, file in files.items() if file.exists()}
        return Access(_headers(keys), _trusting(keys.get("ca.crt", b"")))
    except (ValueError, OSError) as error:
        raise SourceError(FailureReason.UNAUTHENTICATED, f"{folder}: {error}") from error


def _trusting(authorities: bytes) -> ssl.SSLContext | None:
    """Return a context that trusts these authorities in PEM, or None for those of the system."""
    if not authorities:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authorities.decode())
    return context


def _headers(keys: Mapping[str, bytes]) -> dict[str, str]:
    token = keys.get("token", b"").decode().strip()
    user, password = keys.get("username"), keys.get("password")
    if token and (user is not None or password is not None):
        raise ValueError("has a token and a username or password: expected one of the two")
    if token:
        if not token.isascii() or not token.isprintable():
            raise ValueError("token: has characters that no header may have")
        return {"Authorization": f"Bearer {token}"}
    if user is not None and password is not None:
        return {"Authorization": "Basic " + base64.b64encode(user + b":" + password).decode()}
    if "ca.crt" in keys and user is None and password is None:
        return {}
    raise ValueError("expected the key token, or username and password, or ca.crt")
