from pathlib import Path

import pytest

from tidelock.kube.config import ConfigError, load_connection
from tidelock.kube.service_account import read_service_account

IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("first")
    (folder / "ca.crt").write_text("certificate")
    return folder


@pytest.mark.parametrize(
    ("host", "server"),
    [
        ("10.0.0.1", "https://10.0.0.1:443"),
        ("kubernetes.default", "https://kubernetes.default:443"),
        ("fd00::1", "https://[fd00::1]:443"),
    ],
)
def test_the_server_is_a_url_of_host_and_port(folder: Path, host: str, server: str) -> None:
    found = read_service_account(IN_POD | {"KUBERNETES_SERVICE_HOST": host}, folder)
    assert (found.server, found.insecure) == (server, False)


def test_the_token_is_read_again_after_a_minute(folder: Path) -> None:
    now = [100.0]
    header = read_service_account(IN_POD, folder, lambda: now[0]).header
    (folder / "token").write_text("second")

    now[0] = 159.0
    assert header() == "bearer first"
    now[0] = 160.0
    assert header() == "bearer second"
    (folder / "token").write_text("")
    now[0] = 219.0
    assert header() == "bearer second"
    now[0] = 220.0
    with pytest.raises(ValueError, match="Token file exists but empty"):
        header()


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("token", None, "Service token file does not exist"),
        ("token", "", "Token file exists but empty"),
        ("ca.crt", None, "Service certification file does not exist"),
        ("ca.crt", "", "Cert file exists but empty"),
    ],
)
def test_a_missing_or_empty_file_is_an_error(
    folder: Path, file: str, content: str | None, sentence: str
) -> None:
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_text(content)
    with pytest.raises(ConfigError) as caught:
        load_connection(environ=IN_POD, service_account=folder)
    assert str(caught.value) == f"service account in {folder}: {sentence}"


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "Service host/port is not set"),
        (IN_POD | {"KUBERNETES_SERVICE_PORT": ""}, "Service host/port is set but empty"),
        (IN_POD | {"KUBERNETES_SERVICE_HOST": ""}, "Service host/port is set but empty"),
    ],
)
def test_a_missing_or_empty_variable_is_an_error(
    folder: Path, environ: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_connection(environ=environ, service_account=folder)
    assert str(caught.value) == f"service account in {folder}: {sentence}"
