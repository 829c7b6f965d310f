"""A Lease that a separate thread renews, so a long decision never costs the leadership.

The decision loop and the renewals once shared one event loop. An object with a decision that took longer than
the renewal deadline ended the leader, and then the next one, which met the same object.

The thread gives up by this rule: it renews as long as the event loop of the process has turned within the
last `patience` seconds. A loop that stands still for longer is taken for stuck. The Lease then runs out,
writes are refused from `renew_deadline` on, and a standby takes over.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NoReturn, TypeVar

from tidelock.kube.client import KubeClient
from tidelock.kube.lease import Leadership, Lease
from tidelock.kube.second_loop import SecondLoop

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_BEAT = 0.5  # seconds between two signs of life of the event loop


class LeaseThread(Leadership):
    """Leads while the thread has the Lease.

    Only the thread uses the client and changes the Lease. Other threads read single attributes of it.

    Args:
        lease: the Lease.
        client: its own connection to the API server.
        thread: the event loop in which it is renewed.
        patience: seconds for which the event loop of the process may stand still.
        on_lost: called in the thread when the leadership is lost, or the event loop is taken for stuck.
        monotonic: a clock in seconds.

    """

    def __init__(
        self,
        lease: Lease,
        client: KubeClient,
        thread: SecondLoop,
        *,
        patience: float,
        on_lost: Callable[[], None] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.epoch = lease.epoch
        self._lease, self._client, self._thread = lease, client, thread
        self._patience = patience
        self._monotonic = monotonic
        self._turned = monotonic()
        self._on_lost = on_lost

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the thread while the context lasts."""
        async with self._thread.running():
            opened = AsyncExitStack()
            try:
                await self._in_thread(opened.enter_async_context(self._client))
                yield
            finally:
                await self._in_thread(opened.aclose())

    @property
    def waiting(self) -> bool:
        """Whether another process leads, as far as is known."""
        return self._lease.waiting

    @property
    def holder(self) -> str:
        """Identity of the process that leads, as far as is known."""
        return self._lease.holder

    @property
    def silence(self) -> str:
        """Message that the holder of the Lease does not renew it, or empty otherwise."""
        return self._lease.silence

    def check(self) -> None:
        """Raise NotLeading unless the Lease was renewed in time."""
        self._lease.check()

    async def acquire(self) -> None:
        """Wait until this process leads."""
        await self._in_thread(self._lease.acquire())
        self.epoch = self._lease.epoch

    async def keep(self) -> NoReturn:
        """Stay the leader forever.

        Raises:
            LeaseLostError: another process has the Lease, or it was not renewed in time.

        """
        self._turned = self._monotonic()
        beats = asyncio.create_task(self._beat())
        try:
            await self._in_thread(self._keep())
            raise AssertionError
        finally:
            beats.cancel()

    async def release(self) -> None:
        """Let another process lead from now on."""
        await self._in_thread(self._lease.release())

    async def _keep(self) -> NoReturn:
        try:
            await self._lease.keep(while_=self._turns)
        except Exception:
            self._on_lost()  # by the thread, since the event loop may notice it late, or never
            raise

    async def _beat(self) -> NoReturn:
        while True:
            self._turned = self._monotonic()
            await asyncio.sleep(_BEAT)

    def _turns(self) -> bool:
        still = self._monotonic() - self._turned
        if still < self._patience:
            return True
        logger.error(
            "the event loop is stuck, so the Lease is not renewed", extra={"seconds": round(still, 1)}
        )
        self._on_lost()
        return False

    async def _in_thread(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the thread, and cancel it when this call is cancelled."""
        return await asyncio.wrap_future(self._thread.submit(work))
