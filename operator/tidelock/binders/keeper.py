"""Keeps the serving certificate: in a Secret that replicas share, and in the webhooks that trust it."""

import base64
import binascii
import logging
import ssl
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tidelock.binders.certificates import Certificates, renewed
from tidelock.clock import Clock
from tidelock.kube.client import WEBHOOKS, KubeClient, Resource
from tidelock.kube.errors import AlreadyExists, Conflict, NotFound
from tidelock.model.meta import Key, ObjectMeta

logger = logging.getLogger(__name__)

SECRETS = Resource("", "v1", "secrets", "Secret")
CONFIGURATION = "tidelock"
"""Name of the ValidatingWebhookConfiguration."""
WEBHOOK_NAMES = ("bindings.tidelock.dev", "pods.tidelock.dev")
"""Names of the webhooks in it."""

_FIELDS = {"authorities": "ca.crt", "authority_key": "ca.key", "certificate": "tls.crt", "key": "tls.key"}


class _Secret(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}


_DECODER = msgspec.json.Decoder(_Secret)


class Keeper:
    """The certificates in use, and a TLS context that serves with the newest of them."""

    def __init__(self, client: KubeClient, secret: Key, names: Sequence[str], clock: Clock) -> None:
        """Prepare; `names` are the DNS names and addresses under which clients connect."""
        self._client = client
        self._secret = secret
        self._names = tuple(names)
        self._clock = clock
        self._loaded: Certificates | None = None
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    async def renew(self) -> None:
        """Have the Secret hold certificates that are good for long, and serve with them; raises ApiError."""
        certificates = await self._stored()
        if certificates != self._loaded:
            _load(self.context, certificates)
            self._loaded = certificates
            logger.info("serving with a new certificate", extra={"names": ", ".join(self._names)})

    async def introduce(self) -> None:
        """Have the webhooks trust what is served with; raises ApiError."""
        if self._loaded is None:
            return
        bundle = base64.b64encode(self._loaded.authorities).decode()
        webhooks = [{"name": name, "clientConfig": {"caBundle": bundle}} for name in WEBHOOK_NAMES]
        await self._client.patch(WEBHOOKS.item(CONFIGURATION), {"webhooks": webhooks}, kind="strategic")

    async def _stored(self) -> Certificates:
        """Read the Secret, with what is old or missing put in its place. Whoever writes first wins."""
        while True:
            secret = await self._read()
            known = _certificates(secret) if secret is not None else None
            wanted = renewed(known, self._names, self._clock.now())
            if wanted == known:
                return wanted
            try:
                await self._write(secret, wanted)
            except (AlreadyExists, Conflict):
                continue  # another replica was quicker: its certificates are as good
            return wanted

    async def _read(self) -> _Secret | None:
        try:
            return _DECODER.decode(await self._client.get(self._path))
        except NotFound:
            return None

    async def _write(self, secret: _Secret | None, wanted: Certificates) -> None:
        data = {field: base64.b64encode(getattr(wanted, name)).decode() for name, field in _FIELDS.items()}
        metadata = {"name": self._secret.name, "namespace": self._secret.namespace}
        body = {
            "apiVersion": "v1",
            "kind": SECRETS.kind,
            "type": "Opaque",
            "metadata": metadata,
            "data": data,
        }
        if secret is None:
            await self._client.create(SECRETS.collection(self._secret.namespace), body)
        else:
            metadata["resourceVersion"] = secret.metadata.resource_version
            await self._client.replace(self._path, body)

    @property
    def _path(self) -> str:
        return SECRETS.item(self._secret.name, self._secret.namespace)


def _certificates(secret: _Secret) -> Certificates | None:
    """Read certificates from a Secret; None if it is not all there."""
    try:
        return Certificates(**{name: base64.b64decode(secret.data[field]) for name, field in _FIELDS.items()})
    except (KeyError, binascii.Error):
        return None


def _load(context: ssl.SSLContext, certificates: Certificates) -> None:
    """Have new connections be served with other certificates; the ssl module reads files only."""
    with TemporaryDirectory() as folder:
        chain = Path(folder, "tls.pem")
        chain.touch(mode=0o600)
        chain.write_bytes(certificates.key + certificates.certificate)
        context.load_cert_chain(chain)
