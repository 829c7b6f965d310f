"""The address of an API server and the means to identify at it, as one reading has found them."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RestConfig:
    """One reading of a kubeconfig or of a service account.

    Attributes:
        server: base URL; may contain a path.
        header: returns the current Authorization header, or None if there is none. It raises ValueError
            or OSError if the header can't be refreshed.
        insecure: whether the server's certificate is not verified.
        server_name: the name in the server's certificate, if it is not the host of `server`.
        ca_path: file with the trusted certificate authorities, or None for those of the system.
        certificate_path: file with the client certificate, or None if there is none.
        private_key_path: file with the key of the client certificate.

    """

    server: str = ""
    header: Callable[[], str | None] = lambda: None
    insecure: bool = False
    server_name: str | None = None
    ca_path: str | None = None
    certificate_path: str | None = None
    private_key_path: str | None = None
