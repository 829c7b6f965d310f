import asyncio
import json

from bench.failover import Leaderships, parse


def lease(holder: str, epoch: int) -> bytes:
    meta = {"name": "tidelock", "namespace": "tidelock-system", "uid": "u", "resourceVersion": "7"}
    spec = {"holderIdentity": holder, "leaseTransitions": epoch, "leaseDurationSeconds": 5}
    return json.dumps({"type": "MODIFIED", "object": {"metadata": meta, "spec": spec}}).encode()


async def test_a_term_begins_when_a_process_acquires_the_lease() -> None:
    terms = Leaderships()
    waiting = asyncio.create_task(terms.after(1))
    for holder, epoch, instant in (("a", 1, 1.0), ("a", 1, 2.0), ("", 1, 3.0), ("b", 2, 4.0), ("b", 2, 5.0)):
        assert terms.take(lease(holder, epoch), instant) == "7"
    assert await waiting == 4.0
    assert terms.began == {1: 1.0, 2: 4.0}


def test_explicit_options_override_quick() -> None:
    options = parse(["--quick", "--kills", "9", "--signals", "SIGTERM"])
    assert (options.kills, options.rate, options.signals) == (9, 50, ["SIGTERM"])
