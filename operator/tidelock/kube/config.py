"""Address of the API server and credentials, from a kubeconfig or the pod's service account."""

import logging
import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

from tidelock.kube.kubeconfig import read_context, read_kubeconfig
from tidelock.kube.rest_config import RestConfig
from tidelock.kube.service_account import HOST_VARIABLE, read_service_account

logger = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_KUBECONFIG = "~/.kube/config"
DEFAULT_NAMESPACE = "default"
SYSTEM_NAMESPACE = "tidelock-system"
"""Namespace of the installation, unless a pod or an option names another one."""

_OTHER_FILE = "; name a kubeconfig with --kubeconfig or $KUBECONFIG"


class ConfigError(Exception):
    """The connection settings are missing or can't be read."""


class Credentials:
    """The Authorization header of one kubeconfig user or service account, as it changes over time.

    Both methods may read files or run an exec plugin: call them in a thread.
    """

    def __init__(self, load: Callable[[], RestConfig]) -> None:
        self._load = load
        self.rest_config = load()
        self._header: str | None = None

    def header(self) -> str | None:
        """Return the current header, or None if the user has only a client certificate or no credentials.

        A service account's token is read again at most once a minute. An exec plugin or identity provider is
        called again five minutes before its token expires. If that fails, the last header remains in use.
        """
        try:
            header = self.rest_config.header()
        except (ValueError, OSError) as error:
            logger.warning("can't refresh the credentials", extra={"error": str(error)})
            return self._header
        self._header = header.strip() if header else None
        return self._header

    def renew(self) -> str | None:
        """Return the header after reading all credentials again, because the old one was refused."""
        try:
            self.rest_config = self._load()
        except ConfigError as error:
            logger.warning("can't read the credentials again", extra={"error": str(error)})
        return self.header()


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Connection settings for one API server and one user.

    Attributes:
        server: base URL without a slash at the end; may contain a path.
        credentials: source of the Authorization header.
        namespace: the namespace of the kubeconfig's context or of the pod.
        system_namespace: namespace of the operator's installation: that of the pod, or tidelock-system with
            a kubeconfig. The namespace of its context is only where a user works.
        insecure: whether the server's certificate is not verified.
        server_name: the name in the server's certificate, if it is not the host of `server`.
        ca_path: file with the trusted certificate authorities, or None for those of the system.
        certificate_path: file with the client certificate, or None if there is none.
        private_key_path: file with the key of the client certificate.

    """

    server: str
    credentials: Credentials
    namespace: str = DEFAULT_NAMESPACE
    system_namespace: str = SYSTEM_NAMESPACE
    insecure: bool = False
    server_name: str | None = None
    ca_path: str | None = None
    certificate_path: str | None = None
    private_key_path: str | None = None

    def ssl_context(self) -> ssl.SSLContext:
        """Build the TLS settings.

        Raises:
            ConfigError: a certificate or key can't be loaded.

        """
        # create_default_context has a strict mode since Python 3.13 that refuses many clusters' own CAs.
        context = (
            _NamedServer(self.server_name) if self.server_name else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        )
        try:
            if self.insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            elif self.ca_path:
                context.load_verify_locations(cafile=self.ca_path)
            else:
                context.load_default_certs()
            if self.certificate_path:
                context.load_cert_chain(self.certificate_path, self.private_key_path)
        except OSError as error:
            raise ConfigError(f"can't load the certificates: {error}") from error
        return context


class _NamedServer(ssl.SSLContext):
    """TLS settings that ask for the certificate of one name, and verify it, wherever the server is."""

    def __new__(cls, _: str) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, name: str) -> None:
        self._name = name

    def wrap_bio(self, *ends: Any, **settings: Any) -> ssl.SSLObject:
        return super().wrap_bio(*ends, **{**settings, "server_hostname": self._name})


def load_connection(
    kubeconfig: str | Path | None = None,
    *,
    context: str = "",
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """Load `kubeconfig`, $KUBECONFIG, the pod's service account or ~/.kube/config, in this order.

    A `context` belongs to a kubeconfig, so with a context the service account is left out. An empty one means
    the current context.

    Raises:
        ConfigError: there is none, or it can't be read.

    """
    path = str(kubeconfig or environ.get("KUBECONFIG", ""))
    in_pod = HOST_VARIABLE in environ and service_account.is_dir()
    if in_pod and not path and not context:
        return _from_service_account(environ, service_account)
    return _from_kubeconfig(path or DEFAULT_KUBECONFIG, context)


def _from_service_account(environ: Mapping[str, str], folder: Path) -> Connection:
    connection = _connect(
        partial(read_service_account, environ, folder),
        partial(_configuration_errors, f"service account in {folder}"),
    )
    namespace = folder / "namespace"
    if not namespace.is_file():
        return connection
    own = namespace.read_text().strip()
    return replace(connection, namespace=own, system_namespace=own)


def _from_kubeconfig(path: str, context: str) -> Connection:
    errors = partial(_configuration_errors, f"kubeconfig {path}", _OTHER_FILE)
    with errors():
        chosen = read_context(path, context)
    connection = _connect(partial(read_kubeconfig, path, context), errors)
    return replace(connection, namespace=chosen.get("namespace") or DEFAULT_NAMESPACE)


def _connect(
    read: Callable[[], RestConfig], errors: Callable[[], AbstractContextManager[None]]
) -> Connection:
    def load() -> RestConfig:
        with errors():
            found = read()
            _check_server(found.server)
        return found

    credentials = Credentials(load)
    found = credentials.rest_config
    return Connection(
        server=found.server.rstrip("/"),
        credentials=credentials,
        insecure=found.insecure,
        server_name=found.server_name,
        ca_path=found.ca_path,
        certificate_path=found.certificate_path,
        private_key_path=found.private_key_path,
    )


def _check_server(server: str) -> None:
    """Raise ValueError for a server to which no request can be sent."""
    try:
        url = urlsplit(server)
        usable = url.scheme in {"http", "https"} and url.hostname and url.port != 0
    except ValueError:  # a bad port, or an address without its closing bracket
        usable = False
    if not usable:
        raise ValueError(f"the server is {server!r}, expected a URL like https://HOST:PORT")


@contextmanager
def _configuration_errors(source: str, advice: str = "") -> Iterator[None]:
    """Raise errors as one sentence, with their source and an advice."""
    try:
        yield
    except (TypeError, AttributeError) as error:  # the loader's error for a file with other content
        raise ConfigError(f"{source}: holds no configuration ({error}){advice}") from error
    except (yaml.YAMLError, ValueError, OSError, RuntimeError) as error:  # the last for want of a home folder
        text = _system_error(error, source) if isinstance(error, OSError) else None
        raise ConfigError(
            f"{source}: {' '.join((text or str(error)).split()).rstrip('.')}{advice}"
        ) from error


def _system_error(error: OSError, source: str) -> str | None:
    """Return the error, with the file's name if it is not the source, such as a token's."""
    named = f"{error.filename}: " if error.filename and not source.endswith(str(error.filename)) else ""
    return error.strerror and named + error.strerror
