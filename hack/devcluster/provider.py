"""The ways to run Kubernetes on this machine."""

import os
from enum import StrEnum

from devcluster import binaries, kind
from devcluster.errors import DevClusterError

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


def choose(wanted: str | None) -> Provider:
    """Return the wanted provider, or the first that this machine can run.

    Only the provider go has other versions of Kubernetes.

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
            return provider
    raise DevClusterError(binaries.NOTHING_RUNS_KUBERNETES)
