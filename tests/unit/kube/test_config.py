import logging
import os
import re
import ssl
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from devcluster.keys import Keys, make_keys
from tidelock.kube.client import KubeClient
from tidelock.kube.config import ConfigError, Connection, Credentials, load_connection
from tidelock.kube.errors import Unreachable
from tidelock.kube.rest_config import RestConfig
from unit.kube.kubeconfigs import write_kubeconfig

NO_ENVIRONMENT: dict[str, str] = {}
IN_POD = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def service_account(tmp_path: Path) -> Path:
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("secret\n")
    (folder / "ca.crt").write_text("certificate")
    (folder / "namespace").write_text("tidelock-system\n")
    return folder


def test_an_explicit_kubeconfig_takes_precedence(tmp_path: Path, service_account: Path) -> None:
    explicit = write_kubeconfig(tmp_path / "explicit", "https://explicit:6443/", {}, namespace="shop")
    other = write_kubeconfig(tmp_path / "other", "https://other:6443", {})

    environ = IN_POD | {"KUBECONFIG": str(other)}
    connection = load_connection(explicit, environ=environ, service_account=service_account)
    assert (connection.server, connection.namespace) == ("https://explicit:6443", "shop")
    assert connection.system_namespace == "tidelock-system"
    connection = load_connection(environ=environ, service_account=service_account)
    assert (connection.server, connection.namespace) == ("https://other:6443", "default")


def test_several_kubeconfigs_are_merged(tmp_path: Path) -> None:
    first = write_kubeconfig(tmp_path / "first", "https://first:6443", {})
    second = write_kubeconfig(tmp_path / "second", "https://second:6443", {})

    connection = load_connection(environ={"KUBECONFIG": f"{first}:{second}"})
    assert connection.server == "https://first:6443"


def test_the_first_current_context_wins_as_in_kubectl(tmp_path: Path) -> None:
    """The kubernetes package takes the last one."""
    first = write_kubeconfig(tmp_path / "first", "https://first:6443", {})
    second = tmp_path / "second"
    second.write_text("{current-context: y, contexts: [{name: y, context: {cluster: c, namespace: other}}]}")
    path = f"{first}:{second}:{tmp_path / 'missing'}"
    assert load_connection(environ={"KUBECONFIG": path}).namespace == "default"
    assert load_connection(environ={"KUBECONFIG": path}, context="y").namespace == "other"


def test_paths_are_relative_to_their_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "token").write_text("abc\n")
    cluster = {"certificate-authority": "ca.crt"}
    path = write_kubeconfig(tmp_path / "a" / "config", "https://x", {"tokenFile": "token"}, cluster=cluster)
    connection = load_connection(path)
    assert connection.credentials.header() == "Bearer abc"
    assert connection.ca_path == str(tmp_path / "a" / "ca.crt")


def test_a_relative_exec_plugin_is_beside_its_kubeconfig(tmp_path: Path) -> None:
    plugin = tmp_path / "login"
    status = (
        '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t1"}}'
    )
    plugin.write_text(f"#!/bin/sh\necho '{status}'\n")
    plugin.chmod(0o755)
    version = "client.authentication.k8s.io/v1"
    user = {"exec": {"apiVersion": version, "command": "./login", "interactiveMode": "Never"}}
    path = write_kubeconfig(tmp_path / "kubeconfig", "https://x", user)
    assert load_connection(path).credentials.header() == "Bearer t1"


def test_a_pod_uses_its_service_account(service_account: Path) -> None:
    (service_account / "namespace").write_text("platform\n")
    connection = load_connection(environ=IN_POD, service_account=service_account)

    assert connection.server == "https://[fd00::1]:443"
    assert (connection.namespace, connection.system_namespace) == ("platform", "platform")
    assert connection.ca_path == str(service_account / "ca.crt")
    assert connection.credentials.header() == "bearer secret"


def test_a_renewed_service_account_token_is_read_again(service_account: Path) -> None:
    credentials = load_connection(environ=IN_POD, service_account=service_account).credentials
    assert credentials.header() == "bearer secret"

    (service_account / "token").write_text("newer")
    assert credentials.header() == "bearer secret"  # read at most once a minute
    assert credentials.renew() == "bearer newer"


def test_the_kubeconfig_of_the_home_folder_is_the_last_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".kube").mkdir()
    write_kubeconfig(tmp_path / ".kube/config", "https://home:6443", {})
    monkeypatch.setenv("HOME", str(tmp_path))

    connection = load_connection(environ=NO_ENVIRONMENT, service_account=tmp_path / "none")
    assert connection.server == "https://home:6443"


def test_a_user_without_a_home_folder_is_asked_for_a_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside of a pod, the image's user got a traceback: it has neither HOME nor a line in /etc/passwd."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 2)
    with pytest.raises(ConfigError, match=r"kubeconfig ~/.kube/config: .*home.*; name a kubeconfig"):
        load_connection(environ=NO_ENVIRONMENT, service_account=tmp_path / "none")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "there is no such file"),
        ("", "kubeconfig is empty"),
        ("][", "while parsing a block node .* node content"),
        ("just a text", "holds no configuration"),
        ("[a, list]", "holds no configuration"),
        ("{contexts: []}", "there is no current context, choose .*, it has: none"),
        (
            "{contexts: [{name: x, context: {}}]}",
            "there is no current context, choose .*, it has: x",
        ),
        (
            "{current-context: prod, contexts: [{name: x, context: {}}]}",
            "there is no context 'prod', those that it has: x",
        ),
        (
            "{current-context: x, contexts: [{name: x, context: {cluster: c}}]}",
            "there is no cluster 'c', or it is empty",
        ),
        (
            "{clusters: [{name: c, cluster: {a: b}}], current-context: x,\n"
            "contexts: [{name: x, context: {cluster: c, user: u}}]}".strip(),
            "there is no user 'u'",
        ),
        (
            "{current-context: x, clusters: [{name: c}], contexts: [{name: x, context: {cluster: c}}]}",
            "there is no cluster 'c', or it is empty",
        ),
    ],
)
def test_an_unusable_kubeconfig_is_an_error_in_one_sentence(
    tmp_path: Path, content: str | None, told: str
) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)

    with pytest.raises(ConfigError) as caught:
        load_connection(path)

    sentence = str(caught.value)
    assert re.match(f"kubeconfig {path}: .*{told}", sentence), sentence
    assert sentence.endswith("; name a kubeconfig with --kubeconfig or $KUBECONFIG")
    assert "\n" not in sentence


@pytest.mark.parametrize(
    "server",
    [
        "not a url",
        "127.0.0.1:6443",
        "ftp://x",
        "https:///x",
        "https://x:port",
        "https://x:99999",
    ],
)
def test_an_invalid_server_address_is_an_error_that_names_it(tmp_path: Path, server: str) -> None:
    """Such an address was once accepted, and each request failed with a path and without a cause."""
    path = write_kubeconfig(tmp_path / "kubeconfig", server, {})
    with pytest.raises(ConfigError) as caught:
        load_connection(path)
    assert str(caught.value) == (
        f"kubeconfig {path}: the server is {server!r}, expected a URL like https://HOST:PORT"
        "; name a kubeconfig with --kubeconfig or $KUBECONFIG"
    )


def test_a_binary_file_is_no_kubeconfig(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(b"\x7fELF\xff\x00")
    with pytest.raises(ConfigError, match=f"kubeconfig {path}: .*; name a kubeconfig"):
        load_connection(path)


def test_a_missing_file_of_a_kubeconfig_is_named_in_the_error(tmp_path: Path) -> None:
    """The error once read as if the kubeconfig itself were missing."""
    path = write_kubeconfig(tmp_path / "kubeconfig", "https://x", {"tokenFile": "/no/token"})
    with pytest.raises(ConfigError, match=f"^kubeconfig {path}: /no/token: No such file or directory; name"):
        load_connection(path)


def test_a_folder_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"kubeconfig {tmp_path}: Is a directory; name"):
        load_connection(tmp_path)


def test_broken_certificate_data_is_an_error(tmp_path: Path) -> None:
    user = {"client-certificate-data": "x", "client-key-data": "x"}
    path = write_kubeconfig(tmp_path / "kubeconfig", "https://x", user)

    with pytest.raises(ConfigError):
        load_connection(path)


def test_a_missing_certificate_file_is_an_error(tmp_path: Path) -> None:
    connection = Connection(
        server="https://x", credentials=Credentials(RestConfig), ca_path=str(tmp_path / "none")
    )
    with pytest.raises(ConfigError, match="can't load the certificates"):
        connection.ssl_context()


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({}, None),
        ({"token": "abc"}, "Bearer abc"),
        ({"token": "abc", "username": "ann", "password": "secret"}, "Bearer abc"),
        ({"username": "ann", "password": "secret"}, "Basic YW5uOnNlY3JldA=="),
    ],
)
def test_each_kind_of_user_has_its_authorization_header(
    tmp_path: Path, user: dict[str, str], header: str | None
) -> None:
    path = write_kubeconfig(tmp_path / "kubeconfig", "https://x", user)
    assert load_connection(path).credentials.header() == header


def test_an_exec_plugin_provides_the_token(tmp_path: Path) -> None:
    status = (
        '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t1"}}'
    )
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "echo",
        "args": [status],
        "interactiveMode": "Never",
    }
    path = write_kubeconfig(tmp_path / "kubeconfig", "https://x", {"exec": plugin})

    assert load_connection(path).credentials.header() == "Bearer t1"


def test_a_lost_token_file_leaves_the_last_token_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = tmp_path / "token"
    token.write_text("abc")
    path = write_kubeconfig(tmp_path / "kubeconfig", "https://x", {"tokenFile": str(token)})
    credentials = load_connection(path).credentials

    token.unlink()
    with caplog.at_level(logging.WARNING):
        assert credentials.renew() == "Bearer abc"
    assert "can't read the credentials again" in caplog.text


@pytest.mark.parametrize("error", [OSError("no such file"), ValueError("the plugin failed")])
def test_a_failing_refresh_leaves_the_last_header_in_use(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    headers = ["Bearer abc"]

    def header() -> str:
        if not headers:
            raise error
        return headers.pop()

    credentials = Credentials(lambda: RestConfig(header=header))
    assert credentials.header() == "Bearer abc"

    with caplog.at_level(logging.WARNING):
        assert credentials.header() == "Bearer abc"
    assert [vars(entry)["error"] for entry in caplog.records] == [str(error)]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return make_keys(tmp_path_factory.mktemp("keys"))


async def _connect(
    keys: Keys, folder: Path, cluster: dict[str, Any], user: dict[str, Any], host: str = "127.0.0.1"
) -> bytes:
    """Return the subject of the client certificate, as a TLS server that requires one sees it."""

    async def name(request: web.Request) -> web.Response:
        assert request.transport is not None
        return web.Response(text=str(request.transport.get_extra_info("peercert")["subject"]))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys.server_certificate, keys.server_key)
    context.load_verify_locations(keys.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    application = web.Application()
    application.router.add_get("/", name)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, host, 0, ssl_context=context).start()
    try:
        server = "https://{}:{}".format(*runner.addresses[0])
        path = write_kubeconfig(folder / "kubeconfig", server, user, cluster=cluster)
        async with KubeClient(load_connection(path), user_agent="test") as client:
            return await client.get("/")
    finally:
        await runner.cleanup()


def _data(path: Path) -> str:
    return b64encode(path.read_bytes()).decode()


async def test_certificates_within_the_kubeconfig_are_used(keys: Keys, tmp_path: Path) -> None:
    user = {
        "client-certificate-data": _data(keys.admin_certificate),
        "client-key-data": _data(keys.admin_key),
    }
    cluster = {"certificate-authority-data": _data(keys.authority)}
    assert b"system:masters" in await _connect(keys, tmp_path, cluster, user)


async def test_certificates_in_files_are_used(keys: Keys, tmp_path: Path) -> None:
    user = {"client-certificate": str(keys.admin_certificate), "client-key": str(keys.admin_key)}
    cluster = {"certificate-authority": str(keys.authority)}
    assert b"system:masters" in await _connect(keys, tmp_path, cluster, user)


async def test_an_unknown_authority_is_refused_unless_verification_is_disabled(
    keys: Keys, tmp_path: Path
) -> None:
    user = {"client-certificate": str(keys.admin_certificate), "client-key": str(keys.admin_key)}

    with pytest.raises(Unreachable, match="certificate verify failed"):
        await _connect(keys, tmp_path, {}, user)
    insecure = {"insecure-skip-tls-verify": True}
    assert b"system:masters" in await _connect(keys, tmp_path, insecure, user)


async def test_the_name_of_the_server_is_that_of_the_kubeconfig(keys: Keys, tmp_path: Path) -> None:
    """As kubectl does it, for an API server behind a tunnel whose address is not in its certificate."""
    user = {"client-certificate": str(keys.admin_certificate), "client-key": str(keys.admin_key)}
    cluster = {"certificate-authority": str(keys.authority)}
    elsewhere = "127.0.0.2"

    with pytest.raises(Unreachable, match="certificate is not valid for '127"):
        await _connect(keys, tmp_path, cluster, user, elsewhere)
    named = {**cluster, "tls-server-name": "localhost"}
    assert b"system:masters" in await _connect(keys, tmp_path, named, user, elsewhere)
    with pytest.raises(Unreachable, match="Hostname mismatch, certificate is not valid for 'other'"):
        await _connect(keys, tmp_path, {**cluster, "tls-server-name": "other"}, user, elsewhere)


@pytest.mark.parametrize(
    ("cluster", "user", "told"),
    [
        ({"proxy-url": "socks5://proxy:1080"}, {}, "the cluster has proxy-url"),
        ({}, {"as": "ann", "as-groups": ["dev"]}, "the user has as, as-groups"),
        ({}, {"exec": {"command": "login"}, "as": "ann"}, "the user has as"),
    ],
)
def test_a_field_that_must_not_be_ignored_is_refused(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], told: str
) -> None:
    path = write_kubeconfig(tmp_path / "kubeconfig", "https://x:6443", user, cluster=cluster)
    with pytest.raises(ConfigError, match=f"{told}, which is not supported here"):
        load_connection(path)


def two_contexts(path: Path) -> Path:
    """Write a kubeconfig with the contexts x and y and no current context."""
    content = yaml.safe_load(write_kubeconfig(path, "https://first:6443", {}).read_text())
    del content["current-context"]
    content["clusters"].append({"name": "d", "cluster": {"server": "https://second:6443"}})
    content["contexts"].append({"name": "y", "context": {"cluster": "d", "user": "u", "namespace": "bank"}})
    path.write_text(yaml.safe_dump(content))
    return path


def test_a_context_is_chosen_by_name(tmp_path: Path, service_account: Path) -> None:
    path = two_contexts(tmp_path / "kubeconfig")

    connection = load_connection(path, context="y")
    assert (connection.server, connection.namespace) == ("https://second:6443", "bank")
    connection = load_connection(
        context="x", environ=IN_POD | {"KUBECONFIG": str(path)}, service_account=service_account
    )
    assert (connection.server, connection.namespace) == ("https://first:6443", "default")


@pytest.mark.parametrize("contexts", [True, False])
def test_a_missing_context_is_an_error_that_names_the_existing_contexts(
    tmp_path: Path, *, contexts: bool
) -> None:
    path = two_contexts(tmp_path / "kubeconfig")
    if not contexts:
        path.write_text("{apiVersion: v1, kind: Config, clusters: [], contexts: [], users: []}")
    known = "x, y" if contexts else "none"
    with pytest.raises(ConfigError, match=f"there is no context 'prod', those that it has: {known}"):
        load_connection(path, context="prod")
