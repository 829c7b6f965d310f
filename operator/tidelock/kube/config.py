"""Address of the API server and credentials, from a kubeconfig or the pod's service account."""

import logging
import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, kube_config
from kubernetes.config.incluster_config import InClusterConfigLoader

logger = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_KUBECONFIG = "~/.kube/config"
DEFAULT_NAMESPACE = "default"

_OTHER_FILE = "; name a kubeconfig with --kubeconfig or $KUBECONFIG"


class ConfigError(Exception):
    """The connection settings are missing or can't be read."""


class Credentials:
    """The Authorization header of one kubeconfig user or service account, as it changes over time.

    Both methods may read files or run an exec plugin: call them in a thread.
    """

    def __init__(self, load: Callable[[], Configuration]) -> None:
        self._load = load
        self.configuration = load()
        self._header: str | None = None

    def header(self) -> str | None:
        """Return the current header, or None if the user has only a client certificate or no credentials.

        A service account's token is read again at most once a minute. An exec plugin or identity provider is
        called again five minutes before its token expires. If that fails, the last header remains in use.
        """
        try:
            header = self.configuration.get_api_key_with_prefix("BearerToken")
        except (ConfigException, OSError) as error:
            logger.warning("can't refresh the credentials", extra={"error": str(error)})
            return self._header
        self._header = header.strip() if header else None
        return self._header

    def renew(self) -> str | None:
        """Return the header after reading all credentials again, because the old one was refused."""
        try:
            self.configuration = self._load()
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
        insecure: whether the server's certificate is not verified.
        ca_path: file with the trusted certificate authorities, or None for those of the system.
        certificate_path: file with the client certificate, or None if there is none.
        private_key_path: file with the key of the client certificate.

    """

    server: str
    credentials: Credentials
    namespace: str = DEFAULT_NAMESPACE
    insecure: bool = False
    ca_path: str | None = None
    certificate_path: str | None = None
    private_key_path: str | None = None

    def ssl_context(self) -> ssl.SSLContext:
        """Build the TLS settings.

        Raises:
            ConfigError: a certificate or key can't be loaded.

        """
        # create_default_context has a strict mode since Python 3.13 that refuses many clusters' own CAs.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
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
    in_pod = "KUBERNETES_SERVICE_HOST" in environ and service_account.is_dir()
    if in_pod and not path and not context:
        return _from_service_account(environ, service_account)
    return _from_kubeconfig(path or DEFAULT_KUBECONFIG, context)


def _from_service_account(environ: Mapping[str, str], folder: Path) -> Connection:
    loader = InClusterConfigLoader(str(folder / "token"), str(folder / "ca.crt"), environ=environ)  # type: ignore[no-untyped-call]
    namespace = folder / "namespace"
    return _connect(
        loader.load_and_set,
        namespace.read_text().strip() if namespace.is_file() else DEFAULT_NAMESPACE,
        partial(_configuration_errors, f"service account in {folder}"),
    )


def _from_kubeconfig(path: str, context: str) -> Connection:
    def read_into(configuration: Configuration) -> None:
        kube_config.load_kube_config(  # type: ignore[no-untyped-call]
            path, context=context or None, client_configuration=configuration, persist_config=False
        )

    errors = partial(_configuration_errors, f"kubeconfig {path}", _OTHER_FILE)
    with errors():
        chosen = _context(path, context)
    return _connect(read_into, chosen.get("namespace") or DEFAULT_NAMESPACE, errors)


def _context(path: str, name: str) -> dict[str, Any]:
    """Return a context of a kubeconfig, by default the current one, which a named context does not need."""
    merged = kube_config.KubeConfigMerger(path).config  # type: ignore[no-untyped-call]
    if merged is None:
        raise ConfigException("there is no such file")
    known = ", ".join(sorted(entry["name"] for entry in merged["contexts"].value)) or "none"
    name = name or merged.safe_get("current-context")
    if not name:
        choose = "choose one with kubectl config use-context, it has"
        raise ConfigException(f"there is no current context, {choose}: {known}")
    chosen = merged["contexts"].get_with_name(name, safe=True)
    if chosen is None:
        raise ConfigException(f"there is no context {name!r}, those that it has: {known}")
    found: dict[str, Any] = chosen["context"].value
    return found


def _connect(
    read_into: Callable[[Configuration], None],
    namespace: str,
    errors: Callable[[], AbstractContextManager[None]],
) -> Connection:
    def load() -> Configuration:
        configuration = Configuration()
        with errors():
            read_into(configuration)
            _check_server(configuration.host)
        return configuration

    credentials = Credentials(load)
    settings = credentials.configuration
    return Connection(
        server=settings.host.rstrip("/"),
        credentials=credentials,
        namespace=namespace,
        insecure=not settings.verify_ssl,
        ca_path=settings.ssl_ca_cert,
        certificate_path=settings.cert_file,
        private_key_path=settings.key_file,
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
    except (ConfigException, yaml.YAMLError, ValueError, OSError) as error:
        text = _system_error(error, source) if isinstance(error, OSError) else None
        raise ConfigError(
            f"{source}: {' '.join((text or str(error)).split()).rstrip('.')}{advice}"
        ) from error


def _system_error(error: OSError, source: str) -> str | None:
    """Return the error, with the file's name if it is not the source, such as a token's."""
    named = f"{error.filename}: " if error.filename and not source.endswith(str(error.filename)) else ""
    return error.strerror and named + error.strerror
