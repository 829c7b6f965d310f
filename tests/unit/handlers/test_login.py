import ssl
from typing import Any

import kopf
import pytest

from tidelock.handlers.login import register
from tidelock.kube.config import Connection, Credentials
from unit.handlers.registered import function, handlers


class Fixed(Credentials):
    """Credentials with a fixed header."""

    def __init__(self, header: str | None) -> None:
        self._known = header

    def header(self) -> str | None:
        return self._known


def registry(header: str | None = None, **fields: Any) -> kopf.OperatorRegistry:
    made = kopf.OperatorRegistry()
    connection = Connection(server="https://api.example:6443", credentials=Fixed(header), **fields)
    register(made, connection)
    return made


def configured() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    function(registry(), "configure")(settings=settings)
    return settings


def test_there_is_one_handler_for_the_start_and_one_for_login() -> None:
    assert set(handlers(registry())) == {"configure", "login"}


def test_kopf_posts_no_events_and_scans_for_no_resources() -> None:
    settings = configured()

    assert not settings.posting.enabled
    assert settings.scanning.disabled


def test_a_failed_kopf_never_kills_the_process() -> None:
    """By default, Kopf sends SIGKILL to the process ten minutes after it has failed."""
    assert configured().process.ultimate_exiting_timeout is None


@pytest.mark.parametrize(
    ("header", "scheme", "token"),
    [("Bearer abc.def", "Bearer", "abc.def"), ("Basic dTpw", "Basic", "dTpw"), (None, None, None)],
)
def test_kopf_logs_in_with_the_same_credentials(
    header: str | None, scheme: str | None, token: str | None
) -> None:
    fields = {"insecure": True, "ca_path": "ca.crt", "certificate_path": "a.crt", "private_key_path": "a.key"}
    login = function(registry(header, namespace="shop", **fields), "login")

    info = login()
    assert isinstance(info, kopf.ConnectionInfo)
    assert info == login(), "Kopf would take each login for a new one"
    expected = {**fields, "scheme": scheme, "token": token, "default_namespace": "shop"}
    assert {name: getattr(info, name) for name in expected} == expected
    assert info.server == "https://api.example:6443"


def test_kopf_has_the_tls_settings_of_other_requests() -> None:
    """Kopf's own refuse the authorities of many clusters since Python 3.13."""
    info = function(registry(server_name="kubernetes.default"), "login")()

    context = info.as_ssl_context()
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    ends = ssl.MemoryBIO(), ssl.MemoryBIO()
    assert context.wrap_bio(*ends, server_hostname="api.example").server_hostname == "kubernetes.default"
