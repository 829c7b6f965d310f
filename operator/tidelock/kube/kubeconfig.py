"""Kubeconfig files, by kubectl's rules: the first file that sets a value wins.

A user that logs in by an exec plugin or an identity provider is left to the kubernetes package. Its import
takes longer than the rest of a short command.
"""

import atexit
import base64
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import yaml

from tidelock.kube.rest_config import RestConfig

_KINDS = {"clusters": "cluster", "users": "user", "contexts": "context"}
# Fields with the path of a file, which is relative to the kubeconfig.
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
# A tenth of the time, where PyYAML has been built with libyaml.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Fields that send requests through a proxy, or in another name.
_UNSUPPORTED = ("proxy-url", "as", "as-uid", "as-groups", "as-user-extra")
_LOGINS = frozenset({"exec", "auth-provider"})


@dataclass
class _Merged:
    """The entries of all files by their names, with absolute paths."""

    current_context: str = ""
    clusters: dict[str, dict[str, Any]] = field(default_factory=dict)
    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    contexts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def context(self, name: str) -> dict[str, Any]:
        """Return a context, by default the current one. Raises ValueError if there is none."""
        known = ", ".join(sorted(self.contexts)) or "none"
        name = name or self.current_context
        if not name:
            choose = "choose one with kubectl config use-context, it has"
            raise ValueError(f"there is no current context, {choose}: {known}")
        if name not in self.contexts:
            raise ValueError(f"there is no context {name!r}, those that it has: {known}")
        return self.contexts[name]


def read_kubeconfig(path: str, context: str) -> RestConfig:
    """Read a context of a kubeconfig, by default the current one.

    Raises:
        ValueError: the kubeconfig is wrong, or an exec plugin has failed.
        TypeError, AttributeError, yaml.YAMLError: it is no kubeconfig.
        OSError: a file can't be read.

    """
    merged = _read(path)
    chosen = merged.context(context)
    cluster = merged.clusters.get(str(chosen.get("cluster")))
    if not cluster:
        raise ValueError(f"there is no cluster {chosen.get('cluster')!r}, or it is empty")
    user = merged.users.get(str(chosen["user"])) if chosen.get("user") else {}
    if user is None:
        raise ValueError(f"there is no user {chosen['user']!r}")
    _refuse_unsupported("cluster", cluster)
    _refuse_unsupported("user", user)
    if _LOGINS & user.keys():
        return _log_in(cluster, user)
    server = str(cluster.get("server") or "")
    secure = server.startswith("https:")
    header = _header(user)
    return RestConfig(
        server=server,
        header=lambda: header,
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=_server_name(cluster),
        ca_path=_file(cluster, "certificate-authority") if secure else None,
        certificate_path=_file(user, "client-certificate") if secure else None,
        private_key_path=_file(user, "client-key") if secure else None,
    )


def read_context(path: str, name: str) -> dict[str, Any]:
    """Return a context of a kubeconfig, by default the current one, which a named context does not need.

    Raises:
        ValueError: there is no such context, or no such file.
        TypeError, AttributeError, yaml.YAMLError: it is no kubeconfig.
        OSError: a file can't be read.

    """
    return _read(path).context(name)


def _read(path: str) -> _Merged:
    """Merge the files of a path such as that of $KUBECONFIG. Those that do not exist are left out."""
    files = [Path(part).expanduser() for part in path.split(os.pathsep) if part]
    there = [file for file in files if file.exists()]
    if not there:
        raise ValueError("there is no such file")
    merged = _Merged()
    for file in there:
        content = yaml.load(file.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 -- it is a safe one
        if content is None:
            raise ValueError(f"{file} is empty")
        merged.current_context = merged.current_context or content.get("current-context") or ""
        for kind, word in _KINDS.items():
            known: dict[str, dict[str, Any]] = getattr(merged, kind)
            for entry in content.get(kind) or ():
                found = _absolute(entry.get(word) or {}, file.absolute().parent)
                known.setdefault(str(entry.get("name")), found)
    return merged


def _absolute(entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return an entry with absolute paths. A command without a slash is searched on the PATH."""
    paths = {name: str(folder / str(entry[name])) for name in _PATHS if entry.get(name)}
    login = entry.get("exec")
    if isinstance(login, dict) and "/" in str(login.get("command")):
        return {**entry, **paths, "exec": {**login, "command": str(folder / login["command"])}}
    return {**entry, **paths}


def _refuse_unsupported(kind: str, entry: Mapping[str, Any]) -> None:
    """Raise ValueError for fields that must not be ignored."""
    if found := [name for name in _UNSUPPORTED if entry.get(name)]:
        raise ValueError(f"the {kind} has {', '.join(found)}, which is not supported here")


def _server_name(cluster: Mapping[str, Any]) -> str | None:
    return str(cluster.get("tls-server-name") or "") or None


def _header(user: Mapping[str, Any]) -> str | None:
    """Return the Authorization header of a user with a token or a password."""
    token = user.get("token")
    if user.get("tokenFile"):
        token = Path(user["tokenFile"]).read_text(encoding="utf-8")
    if token:
        return f"Bearer {str(token).strip()}"
    if "username" in user and "password" in user:
        both = f"{user['username']}:{user['password']}".encode()
        return f"Basic {base64.b64encode(both).decode()}"
    return None


def _file(entry: Mapping[str, Any], name: str) -> str | None:
    """Return the file of a certificate or a key, which the entry may contain or name."""
    if data := entry.get(f"{name}-data"):
        return _stored(base64.b64decode(data))
    return str(entry[name]) if entry.get(name) else None


@lru_cache(maxsize=16)
def _stored(content: bytes) -> str:
    """Store content in a private file until the process ends, since TLS reads certificates from files."""
    descriptor, path = tempfile.mkstemp()
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    atexit.register(partial(Path.unlink, Path(path), missing_ok=True))
    return path


def _log_in(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> RestConfig:
    """Read a user with a login by the kubernetes package, which calls it again before its token expires."""
    try:
        from kubernetes.client import Configuration  # noqa: PLC0415
        from kubernetes.config import kube_config  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ValueError(
            "its user logs in by a program, which needs the package kubernetes: pip install kubernetes"
        ) from error

    configuration = Configuration()
    plain = {
        "current-context": "x",
        "clusters": [{"name": "x", "cluster": dict(cluster)}],
        "users": [{"name": "x", "user": dict(user)}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    }
    with _value_errors():
        kube_config.load_kube_config_from_dict(  # type: ignore[no-untyped-call]
            plain, client_configuration=configuration, persist_config=False
        )

    def header() -> str | None:
        with _value_errors():
            found: str | None = configuration.get_api_key_with_prefix("BearerToken")
        return found

    return RestConfig(
        server=configuration.host,
        header=header,
        insecure=not configuration.verify_ssl,
        server_name=_server_name(cluster),
        ca_path=configuration.ssl_ca_cert,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )


@contextmanager
def _value_errors() -> Iterator[None]:
    """Raise the package's errors as ValueError."""
    from kubernetes.config import ConfigException  # noqa: PLC0415

    try:
        yield
    except ConfigException as error:
        raise ValueError(str(error)) from error
