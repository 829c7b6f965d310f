"""The service account of a pod, by the files and variables that the kubelet gives to its containers."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tidelock.kube.rest_config import RestConfig

HOST_VARIABLE = "KUBERNETES_SERVICE_HOST"
_PORT_VARIABLE = "KUBERNETES_SERVICE_PORT"
# Seconds after which the token is read again. The kubelet replaces it some minutes before it expires.
_TOKEN_PERIOD = 60.0


def read_service_account(
    environ: Mapping[str, str], folder: Path, clock: Callable[[], float] = time.monotonic
) -> RestConfig:
    """Read the address of the API server from variables, and the credentials from a folder.

    Raises:
        ValueError: a variable or file is missing or empty.
        OSError: a file can't be read.

    """
    if HOST_VARIABLE not in environ or _PORT_VARIABLE not in environ:
        raise ValueError("Service host/port is not set")
    host, port = environ[HOST_VARIABLE], environ[_PORT_VARIABLE]
    if not host or not port:
        raise ValueError("Service host/port is set but empty")
    authority, token = folder / "ca.crt", folder / "token"
    if not token.is_file():
        raise ValueError("Service token file does not exist")
    header = _Token(token, clock).header
    if not authority.is_file():
        raise ValueError("Service certification file does not exist")
    if not authority.read_text():
        raise ValueError("Cert file exists but empty")
    bracketed = f"[{host}]" if ":" in host or "%" in host else host
    return RestConfig(server=f"https://{bracketed}:{port}", header=header, ca_path=str(authority))


class _Token:
    """The token in a file, which is read at most once a minute."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock
        self._read()

    def header(self) -> str:
        """Return the Authorization header. Raises ValueError or OSError if the token can't be read."""
        if self._clock() >= self._due:
            self._read()
        return self._header

    def _read(self) -> None:
        token = self._path.read_text()
        if not token:
            raise ValueError("Token file exists but empty")
        self._header = f"bearer {token}"
        self._due = self._clock() + _TOKEN_PERIOD
