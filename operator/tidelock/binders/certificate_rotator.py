"""Keeps the credentials with which Tidelock and its callers identify each other.

The serving certificate is in a Secret that replicas share, and its authority in the webhooks. The token that
identifies the API server is in the path of the webhooks. Certificates in a file identify schedulers.
"""

import base64
import binascii
import logging
import secrets
import ssl
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit, urlunsplit

import msgspec

from tidelock.binders.certificates import Certificates, renewed
from tidelock.binders.errors import CertificateError, ClientsError
from tidelock.binders.tokens import Tokens
from tidelock.binders.webhooks import BINDINGS, CONFIGURATION, WebhookConfiguration
from tidelock.clock import Clock
from tidelock.kube.client import SECRETS, KubeClient
from tidelock.kube.errors import Conflict
from tidelock.model.answer import AnswerKeys
from tidelock.model.lenient import Reader
from tidelock.model.meta import Key, ObjectMeta

logger = logging.getLogger(__name__)

ANSWER_KEY, FORMER_ANSWER_KEY = "answers.key", "former-answers.key"
"""Fields of the Secret with the keys that sign answers."""

_KEY_BYTES = 32
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

    def _with_path(self, path: str) -> dict[str, object]:
        if self.url:
            return {"url": urlunsplit(urlsplit(self.url)._replace(path=path))}
        return {"service": {"path": path}}

    def changes(self, bundle: str | None, path: str) -> dict[str, object]:
        """Return the part of a patch with other authorities and another path, if any differs.

        Without a bundle, the authorities stay.
        """
        wanted = self.ca_bundle if bundle is None else bundle
        if (self.ca_bundle, self.path) == (wanted, path):
            return {}
        return ({} if bundle is None else {"caBundle": bundle}) | self._with_path(path)


class _Webhook(msgspec.Struct, frozen=True, rename={"client_config": "clientConfig"}):
    name: str = ""
    client_config: _ClientConfig = _ClientConfig()


class _Webhooks(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    webhooks: list[_Webhook] = []


_READ_WEBHOOKS = Reader(_Webhooks, spare=".*")


class CertificateRotator:
    """The current certificates, a TLS context that serves with the newest of them, the tokens, and the keys.

    Args:
        client: the API server.
        secret: the Secret with the certificates and keys.
        names: DNS names and addresses under which clients connect.
        clock: the process' clock.
        introduced: the configurations of the webhooks that are served.
        keys: takes the keys that sign answers, if answers are served.
        rotate: whether to create and replace certificates, and to publish their authorities. Otherwise
            another component does both.

    """

    def __init__(
        self,
        client: KubeClient,
        secret: Key,
        names: Sequence[str],
        clock: Clock,
        introduced: Sequence[WebhookConfiguration] = (BINDINGS,),
        keys: AnswerKeys | None = None,
        *,
        rotate: bool = True,
    ) -> None:
        self.tokens = Tokens(clock.monotonic)
        self._introduced = tuple(introduced)
        self._keys = keys
        self._rotate = rotate
        self._client = client
        self._secret = secret
        self._names = tuple(names)
        self._clock = clock
        self._loaded: Certificates | None = None
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    async def renew(self) -> None:
        """Store certificates with a long validity in the Secret, and serve with them, or raise ApiError.

        Without rotation, serve with the stored certificate, or raise CertificateError if there is none.
        """
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

        Without rotation, the authority stays as it is.
        The version that was read is a condition of the write, so late writes of a former leader are refused.
        """
        if self._loaded is None:
            return
        bundle, path = _text(self._loaded.authorities) if self._rotate else None, ""
        for each in self._introduced:
            stored = _READ_WEBHOOKS(await self._client.get(each.resource.item(CONFIGURATION)))
            for webhook in stored.webhooks:
                self.tokens.adopt(webhook.client_config.path)
            path = path or self.tokens.path()
            await self._write_configuration(each, stored, bundle, path + each.suffix)
        self.tokens.written()

    async def _write_configuration(
        self, introduced: WebhookConfiguration, stored: _Webhooks, bundle: str | None, path: str
    ) -> None:
        """Write the authority and the path of the webhooks, if any differs.

        A configuration of an earlier version may lack some. The API server would refuse a part of a webhook.
        """
        known = {webhook.name: webhook.client_config for webhook in stored.webhooks}
        changes = {name: known[name].changes(bundle, path) for name in introduced.webhooks if name in known}
        webhooks = [{"name": name, "clientConfig": config} for name, config in changes.items() if config]
        if not webhooks:
            return
        body = {"metadata": {"resourceVersion": stored.metadata.resource_version}, "webhooks": webhooks}
        await self._client.patch(introduced.resource.item(CONFIGURATION), body, kind="strategic")

    async def _stored(self) -> Certificates:
        """Read the Secret, and replace old or missing certificates and keys. The first writer wins."""
        while True:
            secret = _READ(await self._client.get(self._path))
            known = _certificates(secret)
            wanted = renewed(known, self._names, self._clock.now()) if self._rotate else _usable(known)
            newest, former = self._wanted_keys(secret, renewing=known is not None and wanted != known)
            changes = {} if wanted == known else _certificate_fields(wanted)
            if newest != _field(secret, ANSWER_KEY):
                changes |= {ANSWER_KEY: _text(newest), FORMER_ANSWER_KEY: _text(former)}
            try:
                if changes:
                    await self._write(secret, changes)
            except Conflict:
                continue  # another replica was faster, and its certificates serve as well
            if self._keys is not None:
                self._keys.use(newest, former)
            return wanted

    def _wanted_keys(self, secret: _Secret, *, renewing: bool) -> tuple[bytes, bytes]:
        """Return the key that signs answers, and the former one.

        A key is replaced with the certificates, and when it was removed from the Secret.
        """
        stored, former = _field(secret, ANSWER_KEY), _field(secret, FORMER_ANSWER_KEY)
        if self._keys is None or (len(stored) >= _KEY_BYTES and not renewing):
            return stored, former
        return secrets.token_bytes(_KEY_BYTES), stored or self._keys.newest

    async def _write(self, secret: _Secret, changes: dict[str, str | None]) -> None:
        metadata = {"resourceVersion": secret.metadata.resource_version}
        await self._client.patch(self._path, {"metadata": metadata, "data": changes})

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


def _usable(known: Certificates | None) -> Certificates:
    """Return the certificate of another component, or raise CertificateError if it is missing."""
    if known is None or not (known.certificate and known.key):
        raise CertificateError("the Secret has no tls.crt and tls.key, which another component must write")
    return known


def _certificate_fields(wanted: Certificates) -> dict[str, str | None]:
    """Return the data of a Secret for certificates. The key of an authority is removed."""
    return {field: _text(getattr(wanted, name)) for name, field in _FIELDS.items()} | {_AUTHORITY_KEY: None}


def _field(secret: _Secret, name: str) -> bytes:
    """Return a field of a Secret, or nothing if it is missing or can't be read."""
    try:
        return base64.b64decode(secret.data.get(name, ""))
    except binascii.Error:
        return b""


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _load(context: ssl.SSLContext, certificates: Certificates) -> None:
    """Serve new connections with other certificates, by way of files, which the ssl module needs."""
    with TemporaryDirectory() as folder:
        chain = Path(folder, "tls.pem")
        chain.touch(mode=0o600)
        chain.write_bytes(certificates.key.rstrip() + b"\n" + certificates.certificate)
        # A failure would leave the context with one half of a pair, so another one is tried first.
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, password="")
        except ssl.SSLError as error:
            raise CertificateError(f"tls.crt and tls.key of the Secret can't be served: {error}") from error
        context.load_cert_chain(chain)
