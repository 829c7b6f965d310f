"""The ways to run Kubernetes on this machine."""

import os
from enum import StrEnum

from devcluster import binaries, kind
from devcluster.errors import DevClusterError
from devcluster.output import say

VARIABLE = "TIDELOCK_PROVIDER"


class Provider(StrEnum):
    """The ways to run Kubernetes, in order of preference."""

    KIND = "kind"
    GO = "go"


_USABLE = {Provider.KIND: kind.usable, Provider.GO: binaries.obtainable}
_NEEDS = {
    Provider.KIND: "The provider kind needs Docker with a running engine, kind and kubectl: install them.",
    Provider.GO: "The provider go needs Go 1.26 or later on Linux: install it.",
}
_NO_ENGINE = "Docker and kind are installed, but no Docker engine answers: a local control plane is used."


def choose(wanted: str | None) -> Provider:
    """Return the wanted provider, or the first that this machine can run.

    If that is not kind, only because no Docker engine answers, a message says so. Only the provider go has
    other versions of Kubernetes.

    Raises:
        DevClusterError: the provider can't be run here, or there is none. The message is one sentence, which
            names the programs to install.

    """
    if version := os.environ.get(binaries.VARIABLE):
        if wanted == Provider.KIND:
            raise DevClusterError(
                f"The provider kind has one version of Kubernetes: to have {version}, choose the provider go."
            )
        wanted = wanted or Provider.GO
    if wanted:
        if wanted not in list(Provider):
            raise DevClusterError(f"There is no provider {wanted}: choose {' or '.join(Provider)}.")
        provider = Provider(wanted)
        if not _USABLE[provider]():
            raise DevClusterError(_NEEDS[provider])
        return provider
    for provider in Provider:
        if _USABLE[provider]():
            if provider is not Provider.KIND and kind.installed():
                say(_NO_ENGINE)
            return provider
    raise DevClusterError(binaries.NOTHING_RUNS_KUBERNETES)
