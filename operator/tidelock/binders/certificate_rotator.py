"""Keeps the credentials with which Tidelock and its callers identify each other.

The serving certificate is in a Secret that replicas share, and its authority in the webhooks. The token that
identifies the API server is in the path of the webhooks. Certificates in a file identify schedulers.
"""

import base64
import binascii
import logging
import ssl
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit, urlunsplit

import msgspec

from tidelock.binders.certificates import Certificates, renewed
from tidelock.binders.errors import ClientsError
from tidelock.binders.tokens import Tokens
from tidelock.clock import Clock
from tidelock.kube.client import SECRETS, WEBHOOKS, KubeClient
from tidelock.kube.errors import Conflict
from tidelock.model.lenient import Reader
from tidelock.model.meta import Key, ObjectMeta

logger = logging.getLogger(__name__)

CONFIGURATION = "tidelock"
"""Name of the ValidatingWebhookConfiguration."""
WEBHOOK_NAMES = ("bindings.tidelock.dev", "pods.tidelock.dev")
"""Names of the webhooks in it."""

_FIELDS = {
    "authorities": "ca.crt",
    "certificate": "tls.crt",
    "key": "tls.key",
    "next_certificate": "next.crt",
    "next_key": "next.key",
}
_AUTHORITY_KEY = "ca.key"  # kept by earlier versions


class _Secret(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}


_READ = Reader(_Secret, spare=".*")


class _Service(msgspec.Struct, frozen=True):
    path: str = ""


class _ClientConfig(msgspec.Struct, frozen=True, rename={"ca_bundle": "caBundle"}):
    url: str = ""
    service: _Service = _Service()
    ca_bundle: str = ""

    @property
    def path(self) -> str:
        return urlsplit(self.url).path if self.url else self.service.path

    def with_path(self, path: str) -> dict[str, object]:
        """Return the part of a patch with another path of the webhook."""
        if self.url:
            return {"url": urlunsplit(urlsplit(self.url)._replace(path=path))}
        return {"service": {"path": path}}

    def differs(self, bundle: str, path: str) -> bool:
        return (self.ca_bundle, self.path) != (bundle, path)


_NONE = _ClientConfig()


class _Webhook(msgspec.Struct, frozen=True, rename={"client_config": "clientConfig"}):
    name: str = ""
    client_config: _ClientConfig = _ClientConfig()


class _Webhooks(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    webhooks: list[_Webhook] = []


_READ_WEBHOOKS = Reader(_Webhooks, spare=".*")


class CertificateRotator:
    """The current certificates, a TLS context that serves with the newest of them, and the tokens."""

    def __init__(self, client: KubeClient, secret: Key, names: Sequence[str], clock: Clock) -> None:
        """Prepare; `names` are the DNS names and addresses under which clients connect."""
        self.tokens = Tokens(clock.monotonic)
        self._client = client
        self._secret = secret
        self._names = tuple(names)
        self._clock = clock
        self._loaded: Certificates | None = None
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    async def renew(self) -> None:
        """Store certificates with a long validity in the Secret, and serve with them, or raise ApiError."""
        certificates = await self._stored()
        if certificates != self._loaded:
            _load(self.context, certificates)
            self._loaded = certificates
            logger.info("serving with a new certificate", extra={"names": ", ".join(self._names)})

    def trust(self, file: Path) -> None:
        """Request client certificates, and trust those in a file or of the authorities in it.

        Without the file, no client is trusted.

        Raises:
            ClientsError: the file can't be read, or holds no certificate.

        """
        try:
            self.context.load_verify_locations(cadata=file.read_text(encoding="ascii"))
        except FileNotFoundError:
            logger.warning("no scheduler is known, so the extender answers none", extra={"file": str(file)})
            return
        except (OSError, ValueError) as error:
            raise ClientsError(f"certificates of schedulers {file}: {error}, expected PEM") from error
        self.context.verify_mode = ssl.CERT_OPTIONAL

    async def introduce(self) -> None:
        """Configure the webhooks with the authority and the newest token, or raise ApiError.

        The version that was read is a condition of the write, so late writes of a former leader are refused.
        """
        if self._loaded is None:
            return
        stored = _READ_WEBHOOKS(await self._client.get(WEBHOOKS.item(CONFIGURATION)))
        known = {each.name: each.client_config for each in stored.webhooks}
        for each in known.values():
            self.tokens.adopt(each.path)
        bundle, path = base64.b64encode(self._loaded.authorities).decode(), self.tokens.path()
        webhooks = [
            {"name": name, "clientConfig": {"caBundle": bundle} | known.get(name, _NONE).with_path(path)}
            for name in WEBHOOK_NAMES
        ]
        if any(known.get(name, _NONE).differs(bundle, path) for name in WEBHOOK_NAMES):
            metadata = {"resourceVersion": stored.metadata.resource_version}
            body = {"metadata": metadata, "webhooks": webhooks}
            await self._client.patch(WEBHOOKS.item(CONFIGURATION), body, kind="strategic")
        self.tokens.written()

    async def _stored(self) -> Certificates:
        """Read the Secret, and replace old or missing certificates. The first writer wins."""
        while True:
            secret = _READ(await self._client.get(self._path))
            known = _certificates(secret)
            wanted = renewed(known, self._names, self._clock.now())
            if wanted == known:
                return wanted
            try:
                await self._write(secret, wanted)
            except Conflict:
                continue  # another replica was faster, and its certificates serve as well
            return wanted

    async def _write(self, secret: _Secret, wanted: Certificates) -> None:
        data = {field: base64.b64encode(getattr(wanted, name)).decode() for name, field in _FIELDS.items()}
        metadata = {"resourceVersion": secret.metadata.resource_version}
        await self._client.patch(self._path, {"metadata": metadata, "data": data | {_AUTHORITY_KEY: None}})

    @property
    def _path(self) -> str:
        return SECRETS.item(self._secret.name, self._secret.namespace)


def _certificates(secret: _Secret) -> Certificates | None:
    """Read certificates from a Secret, or None if it is incomplete or contains an authority's key."""
    if _AUTHORITY_KEY in secret.data:
        return None
    try:
        data = {name: base64.b64decode(secret.data.get(field, "")) for name, field in _FIELDS.items()}
    except binascii.Error:
        return None
    return Certificates(**data)


def _load(context: ssl.SSLContext, certificates: Certificates) -> None:
    """Serve new connections with other certificates, by way of files, which the ssl module needs."""
    with TemporaryDirectory() as folder:
        chain = Path(folder, "tls.pem")
        chain.touch(mode=0o600)
        chain.write_bytes(certificates.key + certificates.certificate)
        context.load_cert_chain(chain)
