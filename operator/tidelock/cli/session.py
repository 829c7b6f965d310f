"""From the command line to the API server. A failure becomes one sentence with an advice."""

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from tidelock import __version__
from tidelock.cli.failure import Failure
from tidelock.kube.client import ApiResource, KubeClient
from tidelock.kube.config import ConfigError, load_connection
from tidelock.kube.errors import (
    AdmissionUnavailable,
    ApiError,
    Forbidden,
    NotFound,
    TransientError,
    Unauthorized,
)

MANAGER = "kubectl-tidelock"
"""The fieldManager of this command's writes."""

INTERRUPTED = 130
"""The exit status of a command that Ctrl-C ends: 128 and the number of the signal."""

_TIMEOUT = 30.0  # seconds for one answer, which may contain a whole cluster

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTarget:
    """Cluster and namespace of a command, by its options. An empty one comes from the kubeconfig."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    """A client, and the namespace of the command, or None for all."""

    client: KubeClient
    namespace: str | None

    @property
    def home(self) -> str:
        """The single namespace, for a command about one object."""
        if self.namespace is None:
            raise Failure("this is about one namespace: leave out --all-namespaces, or name one with -n")
        return self.namespace


def ask(target: ClusterTarget, work: Callable[[Session], Awaitable[_T]]) -> _T:
    """Run work with a cluster, or raise Failure like `reach`. `short`: it lists no whole cluster."""
    return run(reach(target, work))


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run work to its end. Ctrl-C ends the process as it ends a shell's command."""
    try:
        return asyncio.run(_woken_by_signals(work))
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    finally:
        work.close()  # a signal may come before it begins


async def _woken_by_signals(work: Coroutine[Any, Any, _T]) -> _T:
    """Run work, and wake the loop at a SIGINT, which the system may give to any thread.

    The handler of `asyncio.run` would otherwise run after the next event, which may be a minute away. It
    stays as it is: a signal handler of the loop only has the interpreter write to the loop's own socket.
    """
    loop, handler = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler is signal.SIG_IGN:
        return await work
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    signal.signal(signal.SIGINT, handler)
    try:
        return await work
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def reach(target: ClusterTarget, work: Callable[[Session], Awaitable[_T]]) -> _T:
    """Run work with a cluster, beside other work.

    Raises:
        Failure: the cluster could not be reached, or refused.

    """
    logging.getLogger("tidelock").addHandler(logging.NullHandler())  # every relevant message is a Failure
    try:
        connection = load_connection(target.kubeconfig or None, context=target.context)
    except ConfigError as error:
        raise Failure(str(error)) from error
    namespace = None if target.everywhere else target.namespace or connection.namespace
    client = KubeClient(
        connection,
        user_agent=f"{MANAGER}/{__version__}",
        timeout_seconds=_TIMEOUT,
        manager=lambda: MANAGER,
    )
    try:
        async with client:
            return await work(Session(client, namespace))
    except ConfigError as error:
        raise Failure(f"{error}; check the certificates that the kubeconfig names") from error
    except ApiError as error:
        raise Failure(explained(error, connection.server)) from error


async def create(
    session: Session, resource: ApiResource, namespace: str, body: dict[str, Any], **parameters: str
) -> bytes:
    """Create an object. An unknown field is an error."""
    parameters |= {"fieldManager": MANAGER, "fieldValidation": "Strict"}
    return await session.client.request("POST", resource.collection(namespace), params=parameters, body=body)


async def apply_dry_run(
    session: Session, resource: ApiResource, name: str, namespace: str, body: dict[str, Any]
) -> bytes:
    """Let the API server complete and check an object as if it were applied, without a write."""
    parameters = {"dryRun": "All", "fieldManager": MANAGER, "fieldValidation": "Strict", "force": "true"}
    return await session.client.patch(resource.item(name, namespace), body, kind="apply", params=parameters)


def explained(error: ApiError, server: str) -> str:
    """Return the meaning of an error of the API server, with an advice."""
    said = " ".join(error.message.split()).rstrip(".")
    match error:
        case Unauthorized():
            return f"{server} does not accept the kubeconfig's credentials: log in again"
        case Forbidden():
            return (
                f"you lack the right: {said}; ask an admin for it (for Reservations, the ClusterRoles "
                "tidelock-viewer and tidelock-manager grant it)"
            )
        case AdmissionUnavailable():
            return f"{server} could not judge the request for now: {said}; try again in a moment"
        case NotFound() if not error.reason:  # of the API, not of an object
            return (
                "this cluster has no Tidelock: install it (docs/installation.md), "
                "or choose another cluster with --context"
            )
        case TransientError() if not error.status:
            return (
                f"no answer from {server} ({said}): check that the cluster runs and can be reached, "
                "or choose another with --context"
            )
        case _:
            return said or str(error)
