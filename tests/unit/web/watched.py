"""A scheduler that is driven by hand, with its web view."""

from typing import Any

from tidelock.model.nodes import Node
from tidelock.web.overview import OverviewPage
from tidelock.web.query import ViewQuery
from tidelock.web.view import Page
from unit.scheduler.machinery import Core
from webview.stage import Stage


class Watched(Core):
    """A scheduler with its web view."""

    def __init__(self, *nodes: Node) -> None:
        super().__init__(*nodes)
        self.stage = Stage(self.decider, self.clock)
        self.recent = self.stage.recent

    def page(self, **query: Any) -> OverviewPage:
        """Return an overview that is computed at once."""
        page = self.any_page(**query)
        assert isinstance(page, OverviewPage)
        return page

    def any_page(self, **query: Any) -> Page:
        """Return a page that is computed at once."""
        slices = self.stage.view.look(ViewQuery(**query), self.clock.now())
        while True:
            try:
                next(slices)
            except StopIteration as end:
                page: Page = end.value
                return page
