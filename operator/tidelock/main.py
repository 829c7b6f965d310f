"""The `tidelock` command: its options and subcommands."""

import argparse
import gc
import ipaddress
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tidelock import __version__
from tidelock.running import collect_seldom
from tidelock.settings import Settings

if TYPE_CHECKING:  # the commands import their modules
    from tidelock.pace import Pace

_EXAMPLES = """\
examples:
  tidelock run --kubeconfig ~/.kube/config --no-leader-elect
  tidelock run --config scheduler.yaml --web-view --log-format json
"""


class _WithDefaults(argparse.RawDescriptionHelpFormatter):
    """Shows the default of each option that has one, and whose help does not say it."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        default = action.default
        if default in ("", None, False, argparse.SUPPRESS) or "Default:" in (action.help or ""):
            return action.help
        if isinstance(default, tuple):
            return f"{action.help} (default: {','.join(default)})"
        if isinstance(default, bool):
            return f"{action.help} (default: yes)"
        return f"{action.help} (default: {default})"


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidelock",
        description="Reservations of node capacity with an expiry, and load-aware placement of pods.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "run", help="run the operator and scheduler", formatter_class=_WithDefaults, epilog=_EXAMPLES
    )
    run.set_defaults(**asdict(Settings()))
    run.add_argument(
        "--kubeconfig",
        help="kubeconfig file. Default: $KUBECONFIG, the pod's service account, or ~/.kube/config",
    )
    _add_scheduling(run)
    _add_serving(run)
    _add_leading(run)
    _add_binders(run)
    _add_integrations(run)
    simulate = commands.add_parser(
        "simulate", help="simulate a load under several policies, without a cluster"
    )
    if "simulate" in words:
        from tidelock.simulation import command  # noqa: PLC0415 -- a start does not need its worlds

        command.add_arguments(simulate)
    shadow = commands.add_parser(
        "shadow", help="watch a cluster, replay each decision without a write, and report the differences"
    )
    if "shadow" in words:
        from tidelock.shadow import command as shadow_command  # noqa: PLC0415

        shadow_command.add_arguments(shadow)
    return parser


def _add_scheduling(run: argparse.ArgumentParser) -> None:
    scheduling = run.add_mutually_exclusive_group()
    scheduling.add_argument(
        "--config", help="file with a KubeSchedulerConfiguration, as docs/configuration.md describes it"
    )
    scheduling.add_argument(
        "--scheduler-name", type=_name, help="schedulerName of the pods that the default profile schedules"
    )
    run.add_argument(
        "--move-after-seconds",
        type=_seconds,
        help="how long a reservation that names no node stays on a node that is cordoned or not ready",
    )
    run.add_argument(
        "--earmark-after-seconds",
        type=_seconds,
        help="how long a reservation waits before freed capacity of a node is kept for it",
    )
    run.add_argument(
        "--borrower-grace-seconds",
        type=_positive,
        help="longest grace period, in whole seconds, of a borrower that is evicted for an owner",
    )


def _add_integrations(run: argparse.ArgumentParser) -> None:
    """Add the options for Kueue, Karmada and autoscalers."""
    run.add_argument(
        "--provisioning-requests",
        action="store_true",
        help="serve ProvisioningRequests of the class hold.tidelock.dev, as docs/kueue.md describes it",
    )
    run.add_argument(
        "--karmada-cluster",
        metavar="NAME",
        help="answer the scheduler of Karmada, which knows this cluster by this name",
    )
    run.add_argument("--karmada-port", type=_port, help="port for these answers, over gRPC and mutual TLS")
    run.add_argument(
        "--karmada-address",
        type=_address,
        help="address of this process, as the endpoint of the Service tidelock-estimator while it leads",
    )
    run.add_argument(
        "--karmada-tls",
        metavar="FOLDER",
        help="folder with tls.crt, tls.key, and the authority of callers in ca.crt",
    )
    run.add_argument(
        "--keep-nodes",
        action="store_true",
        help="have autoscalers keep the nodes of reservations, in namespaces with a quota that says so",
    )
    run.add_argument(
        "--request-nodes",
        action="store_true",
        help="ask autoscalers for nodes, for reservations that wait in namespaces with a quota that says so, "
        "and for pods that only reservations keep from nodes. It includes --keep-nodes",
    )


def _add_serving(run: argparse.ArgumentParser) -> None:
    """Add the options of probes, metrics, the web view and logs."""
    run.add_argument("--listen", type=_name, help="address for metrics, probes and the web view")
    run.add_argument(
        "--port", type=_port, help="port for metrics, probes and the web view. 0 is any free port"
    )
    run.add_argument(
        "--metrics-token-file",
        metavar="FILE",
        help="file with the bearer token that scrapes of the metrics must send. Default: no token is needed",
    )
    run.add_argument(
        "--web-view",
        action="store_true",
        help="serve a page at /web/ with nodes, reservations and decisions. It needs the same token",
    )
    run.add_argument(
        "--web-address",
        type=_address,
        help="address of this process, as the endpoint of the Service tidelock-web while it leads",
    )
    run.add_argument("--log-format", choices=("text", "json"), help="format of the log")
    run.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), help="least severe level that is logged"
    )


def _add_leading(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "--leader-elect",
        action=argparse.BooleanOptionalAction,
        help="decide only while this process holds the Lease, so other replicas can stand by",
    )
    run.add_argument("--lease-name", type=_name, help="name of the Lease")
    run.add_argument(
        "--lease-namespace",
        help="namespace of the Lease. Default: that of the pod, or tidelock-system outside of a pod."
        " A kubeconfig's context does not change it",
    )
    run.add_argument(
        "--lease-duration-seconds",
        type=_lease_seconds,
        help="how long other replicas wait for a silent leader: from 2 to 3600",
    )


def _add_binders(run: argparse.ArgumentParser) -> None:
    """Add the options for other binders, see docs/other-binders.md."""
    run.add_argument(
        "--extender",
        action="store_true",
        help="serve the extender API, with which other schedulers respect reservations",
    )
    run.add_argument(
        "--extender-clients",
        metavar="FILE",
        help="PEM file with the certificates of these schedulers, or of authorities that sign only these",
    )
    run.add_argument("--admission", action="store_true", help="review the bindings of other binders")
    run.add_argument(
        "--answers",
        action="store_true",
        help="answer reservations with spec.answer in the response to their creation",
    )
    run.add_argument("--tls-port", type=_port, help="port for the extender API and webhooks, over TLS")
    run.add_argument(
        "--tls-address",
        type=_address,
        help="address of this process, as the endpoint of the Service tidelock-binders while it leads",
    )
    run.add_argument(
        "--tls-names",
        type=lambda text: tuple(text.split(",")),
        metavar="NAME,...",
        help="DNS names and addresses of the certificate for this port",
    )
    run.add_argument(
        "--tls-secret",
        type=_namespaced,
        metavar="NAMESPACE/NAME",
        help="Secret in which this certificate is kept",
    )
    run.add_argument(
        "--tls-rotate",
        action=argparse.BooleanOptionalAction,
        help="create and replace this certificate. Otherwise another component, such as cert-manager, does",
    )


def _address(text: str) -> str:
    """Check an IP address. An empty text stands for none."""
    try:
        return str(ipaddress.ip_address(text)) if text else ""
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: should be an IP address") from None


def _seconds(text: str) -> float:
    """Check a duration in seconds, which may have decimals."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} should be a number of seconds from 0")
    return number


def _positive(text: str) -> int:
    """Check a duration in whole seconds."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} should be a whole number of seconds from 1")
    return int(text)


def _name(text: str) -> str:
    """Check a name, which may not be empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError("should not be empty")
    return text


def _port(text: str) -> int:
    """Check a TCP port. 0 is any that is free."""
    if not text.isdecimal() or not int(text) < 2**16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: should be a whole number from 0 to 65535")
    return int(text)


def _namespaced(text: str) -> str:
    """Check the name of a namespaced object."""
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r}: should be NAMESPACE/NAME")
    return text


def _lease_seconds(text: str) -> int:
    shortest, longest = 2, 3600
    if not text.isdecimal() or not shortest <= int(text) <= longest:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {shortest} to {longest}")
    return int(text)


def main(argv: Sequence[str] | None = None, pace: "Pace | None" = None) -> int:
    """Run the command, at the pace of every installation if none is given. Return the exit status.

    Imported modules are no garbage, and the search for it would take a tenth of a start.
    """
    if find_spec("kopf") is None:
        sys.stderr.write(
            "error: only the client for managers is installed: in a checkout, pip install '.[operator]'\n"
        )
        return 1
    words = sys.argv[1:] if argv is None else argv
    parsed = _parser(words).parse_args(words)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # the search for them is slow
    gc.disable()
    run = _import_command(parsed.command, pace)
    gc.freeze()
    collect_seldom()
    gc.enable()
    return run(parsed)


def _import_command(name: str, pace: "Pace | None") -> Callable[[argparse.Namespace], int]:
    """Import the modules of a command, and return the function that runs it."""
    if name == "simulate":
        from tidelock.simulation import command  # noqa: PLC0415

        return command.run
    if name == "shadow":
        from tidelock.shadow import command as shadow_command  # noqa: PLC0415

        return shadow_command.run
    from tidelock import process  # noqa: PLC0415

    def run(parsed: argparse.Namespace) -> int:
        arguments = vars(parsed)
        del arguments["command"]
        settings = Settings(**arguments)
        return process.run(settings, pace) if pace is not None else process.run(settings)

    return run


if __name__ == "__main__":
    sys.exit(main())
