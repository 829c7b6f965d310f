"""Kopf's settings, and its login at the API server."""

import ssl
from dataclasses import dataclass, field
from typing import Any

import kopf

from tidelock.kube.config import Connection


@dataclass(frozen=True, kw_only=True)
class _ConnectionInfo(kopf.ConnectionInfo):
    """Kopf's settings of a connection, with the TLS settings of all other requests.

    Kopf's own know no name of the server, and are stricter since Python 3.13 (`Connection.ssl_context`).
    """

    connection: Connection = field(compare=False)  # Kopf asks whether a login gave anything new

    def as_ssl_context(self) -> ssl.SSLContext:
        """Build the TLS settings. Raises ConfigError if a certificate or key can't be loaded."""
        return self.connection.ssl_context()


def register(registry: kopf.OperatorRegistry, connection: Connection) -> None:
    """Add the settings of this process, and its way to the API server, to a registry."""

    @kopf.on.startup(registry=registry)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        # One recorder writes the events of the whole process; Kopf would write one for each run of a handler.
        settings.posting.enabled = False
        # Without this Kopf would watch CRDs, for which the operator has no right.
        settings.scanning.disabled = True
        # The supervisor has the one back-off. Without any pause here, Kopf would ask a server that is down
        # again without end.
        settings.networking.error_backoffs = (1.0,)
        # A Kopf that has failed would otherwise have the process killed after ten minutes.
        settings.process.ultimate_exiting_timeout = None

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        scheme, _space, token = (connection.credentials.header() or "").partition(" ")
        return _ConnectionInfo(
            connection=connection,
            server=connection.server,
            insecure=connection.insecure,
            ca_path=connection.ca_path,
            certificate_path=connection.certificate_path,
            private_key_path=connection.private_key_path,
            scheme=scheme or None,
            token=token or None,
            default_namespace=connection.namespace,
        )
