"""The parts of reality that a world lacks, and the places of production that it replaces or leaves alone.

`tests/world/test_seam.py` fails when production gets a place that is not here.
"""

from collections.abc import Mapping
from types import MappingProxyType

LIMITS: Mapping[str, str] = MappingProxyType(
    {
        "TLS is not spoken": "Keys, nonces and signatures come from OpenSSL's own source of chance, so the"
        " bytes and their lengths would differ between two runs. A connection knows only whether each side"
        " asks for TLS, and fails if one does. Certificates, names and TLS alerts are never checked.",
        "Keys are not drawn from the seed": "The keys and signatures of certificates"
        " (`binders/certificates`) come from OpenSSL. A run with --admission, --extender or --answers differs"
        " in the bytes of its Secret.",
        "Threads run one function at a time": "A function for a thread runs at a drawn later instant as a"
        " whole, so two threads never interleave within functions. The second event loop of the Lease is a"
        " lane of its own, which runs between the steps of the main one.",
        "A step takes no time by itself": "A long decision takes as long as a short one: 20 microseconds on"
        " average. `Host.stall` stops a process for longer.",
        "The loop is asyncio's and not uvloop": "uvloop has sockets and timers of its own. Both keep the same"
        " promises, and production may rely on no others.",
        "The garbage collector is off": "Its runs depend on the memory of the whole Python process. Only the"
        " counting of references frees objects.",
        "Files are real": "They are read from the disk of this machine, at a virtual instant.",
        "All processes share the modules": "Their global variables are those of one Python process. The"
        " operator has caches there, and no state.",
        "`asyncio.all_tasks` has the tasks of all processes": "The metric tidelock_tasks counts too many.",
        "No metrics of the Linux process": "Its memory and CPU time are those of the whole world.",
        "A name has one IPv4 address": "There is no IPv6, and no answer with several addresses.",
        "TCP is a stream of pieces": "There are no sequence numbers, windows or congestion. A side that has"
        " fallen silent learns of it only by its own time-outs, and not by TCP's.",
        "Sockets have no options": "TCP_NODELAY, keepalive and the size of buffers have no effect.",
    }
)
"""Each limit with its reason."""

_MACHINE = "a part of `Machine`, of which the world passes another"
_DEFAULT = "a default, which `operate` replaces by the clock of `Machine`"
_BYTES = "`chance` replaces os.urandom, from which it draws"
_THREAD = "the loop runs the function at a drawn later instant"
_LATE = "read from its module at each call, where `chance` replaces it"
_BLOCKING = "the blocking form of the client, for programs without a loop. No world runs it"

PLACES: Mapping[str, str] = MappingProxyType(
    {
        "binders/certificate_rotator.py: secrets.token_bytes": _BYTES,
        "binders/certificates.py: x509.random_serial_number": _BYTES,
        "binders/creation_webhook.py: secrets.token_hex": _BYTES,
        "binders/tokens.py: secrets.token_hex": _BYTES,
        "client/cluster.py: asyncio.to_thread": _THREAD,
        "client/holding.py: time.monotonic": _LATE,
        "client/informer.py: random.Random": "the jitter of retries, which differs between runs: a limit",
        "client/quoting.py: secrets.token_hex": _BYTES,
        "client/racing.py: time.monotonic": _LATE,
        "client/remote.py: datetime.now": "the time of a lease in a creation, which is the real one: a limit",
        "client/remote.py: time.monotonic": _LATE,
        "client/remote.py: time.time": _LATE,
        "client/sync.py: asyncio.new_event_loop": _BLOCKING,
        "client/sync.py: asyncio.run_coroutine_threadsafe": _BLOCKING,
        "client/sync.py: call_soon_threadsafe": _BLOCKING,
        "client/sync.py: concurrent.futures.Future": _BLOCKING,
        "client/sync.py: threading.Thread": _BLOCKING,
        "clock.py: time.monotonic": _MACHINE,
        "clock.py: time.time": _MACHINE,
        "devices/results.py: uuid.uuid5": "a digest of its arguments, without chance",
        "handlers/lifecycle.py: add_signal_handler": "the loop notes it, and `Host.signal` calls it",
        "handlers/supervision.py: asyncio.to_thread": _THREAD,
        "integrations/karmada/server.py: asyncio.to_thread": _THREAD,
        "kube/client.py: asyncio.to_thread": _THREAD,
        "kube/client.py: time.monotonic": _DEFAULT,
        "kube/events.py: time.monotonic": _DEFAULT,
        "kube/events.py: time.time": _DEFAULT,
        "kube/lease.py: time.monotonic": _DEFAULT,
        "kube/lease.py: time.time": _DEFAULT,
        "kube/lease_thread.py: time.monotonic": _DEFAULT,
        "kube/other_leaders.py: time.monotonic": _DEFAULT,
        "kube/second_loop.py: asyncio.new_event_loop": _MACHINE,
        "kube/second_loop.py: asyncio.run_coroutine_threadsafe": _MACHINE,
        "kube/second_loop.py: asyncio.to_thread": _MACHINE,
        "kube/second_loop.py: call_soon_threadsafe": _MACHINE,
        "kube/second_loop.py: threading.Thread": _MACHINE,
        "kube/service_account.py: time.monotonic": "the age of a token. A world has a kubeconfig without one",
        "kube/watch.py: time.monotonic": _DEFAULT,
        "machine.py: random.Random": _MACHINE,
        "process.py: asyncio.to_thread": _THREAD,
        "process.py: uuid.uuid4": _BYTES,
        "running.py: faulthandler.dump_traceback_later": _MACHINE,
        "serving.py: asyncio.to_thread": _THREAD,
        "settings.py: socket.gethostname": "a default of the settings, of which the world passes others",
        "telemetry.py: ProcessCollector": "the metrics of the Linux process, of which `chance` leaves none",
        "web/site.py: time.perf_counter": _LATE,
    }
)
"""Each place of production with a clock, chance or a thread, and how the world replaces it."""
