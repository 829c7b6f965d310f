"""A scheduler that is driven by hand, and somebody who looks at it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from tidelock.model.nodes import Node
from tidelock.scheduler.cycle import Assumed
from tidelock.scheduler.decider import Unschedulable
from tidelock.scheduler.recent import Recent
from tidelock.serving import MetricsToken, serve
from tidelock.web.site import Site, Standing
from tidelock.web.view import Page, Query, View
from unit.scheduler.machinery import Core

LOOPBACK = "127.0.0.1"


class Watched(Core):
    """A scheduler, its view, and the site that shows it."""

    def __init__(self, *nodes: Node) -> None:
        super().__init__(*nodes)
        self.recent = Recent()
        self.view = View(self.decider, self.recent)
        self.standing = Standing("leading", "tidelock-a", "tidelock-a_1", epoch=3)

    def page(self, **query: Any) -> Page:
        """Make a page at once."""
        slices = self.view.look(Query(**query), self.clock.now())
        while True:
            try:
                next(slices)
            except StopIteration as end:
                page: Page = end.value
                return page

    def decide(self) -> None:
        """Decide all that is due, and note it as the loop and its helpers do."""
        while self.decider.next_due() == 0 or self.queue.next_due() == 0:
            outcome = self.step()
            if isinstance(outcome, Assumed):
                self.recent.placed(outcome, self.clock.now())
                self.decider.bound(outcome, self.clock.now())
            elif isinstance(outcome, Unschedulable):
                self.recent.refused(outcome, self.clock.now())
        changes, self.book.changes = self.book.changes, []
        for change in changes:
            self.recent.changed(change, self.book.entries.get(change.meta.key))

    def site(self, token: MetricsToken | None = None) -> Site:
        return Site(self.view.look, lambda: self.standing, self.clock, token)

    @asynccontextmanager
    async def served(self, token_file: Path | None = None, port: int = 0) -> AsyncIterator[str]:
        """Serve the site as the operator does; gives its address."""
        token = MetricsToken(token_file) if token_file else None
        site = self.site(token).application
        async with serve(
            LOOPBACK, port, CollectorRegistry(), alive=bool, ready=bool, token=token, site=site
        ) as bound:
            yield f"http://{LOOPBACK}:{bound}/web/"
