"""Kubeconfig files, as the kubernetes package reads them. Its import takes a fifth of a start."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from kubernetes.client import Configuration
from kubernetes.config import ConfigException, kube_config

from tidelock.kube.rest_config import RestConfig


def read_kubeconfig(path: str, context: str) -> RestConfig:
    """Read a context of a kubeconfig, by default the current one.

    Raises:
        ValueError: the kubeconfig is wrong, or an exec plugin has failed.
        TypeError, AttributeError, yaml.YAMLError: it is no kubeconfig.
        OSError: a file can't be read.

    """
    configuration = Configuration()
    with _value_errors():
        kube_config.load_kube_config(  # type: ignore[no-untyped-call]
            path, context=context or None, client_configuration=configuration, persist_config=False
        )
    return RestConfig(
        server=configuration.host,
        header=partial(_header, configuration),
        insecure=not configuration.verify_ssl,
        ca_path=configuration.ssl_ca_cert,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )


def read_context(path: str, name: str) -> dict[str, Any]:
    """Return a context of a kubeconfig, by default the current one, which a named context does not need.

    Raises:
        ValueError: there is no such context, or no such file.
        TypeError, AttributeError, yaml.YAMLError: it is no kubeconfig.
        OSError: a file can't be read.

    """
    with _value_errors():
        merged = kube_config.KubeConfigMerger(path).config  # type: ignore[no-untyped-call]
        if merged is None:
            raise ValueError("there is no such file")
        known = ", ".join(sorted(entry["name"] for entry in merged["contexts"].value)) or "none"
        name = name or merged.safe_get("current-context")
        if not name:
            choose = "choose one with kubectl config use-context, it has"
            raise ValueError(f"there is no current context, {choose}: {known}")
        chosen = merged["contexts"].get_with_name(name, safe=True)
        if chosen is None:
            raise ValueError(f"there is no context {name!r}, those that it has: {known}")
        found: dict[str, Any] = chosen["context"].value
        return found


def _header(configuration: Configuration) -> str | None:
    """Return the header, for which an exec plugin is called five minutes before its token expires."""
    with _value_errors():
        header: str | None = configuration.get_api_key_with_prefix("BearerToken")
    return header


@contextmanager
def _value_errors() -> Iterator[None]:
    """Raise the package's errors as ValueError."""
    try:
        yield
    except ConfigException as error:
        raise ValueError(str(error)) from error
