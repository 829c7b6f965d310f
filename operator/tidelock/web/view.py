"""The pages of the web view, as the site asks for them.

Pure. However large the cluster is, a page is bounded, and its computation comes in slices of about a
millisecond, between which decisions go on.
"""

from collections.abc import Callable, Generator, Mapping
from types import MappingProxyType

from tidelock.web import lists
from tidelock.web.node_page import NodePage, node_page
from tidelock.web.overview import OverviewPage, overview
from tidelock.web.query import View, ViewQuery
from tidelock.web.reservation_page import ReservationPage, reservation_page
from tidelock.web.sources import Sources

Page = OverviewPage | NodePage | ReservationPage | lists.GroupsPage | lists.SchedulesPage | lists.QuotasPage
Slices = Generator[None, None, Page]

_PAGES: Mapping[View, Callable[[Sources, ViewQuery, float], Slices]] = MappingProxyType(
    {
        "overview": overview,
        "node": node_page,
        "reservation": reservation_page,
        "groups": lists.groups,
        "schedules": lists.schedules,
        "quotas": lists.quotas,
    }
)


class WebView:
    """Computes the pages."""

    def __init__(self, sources: Sources) -> None:
        """Take the state to show."""
        self._sources = sources

    def look(self, query: ViewQuery, now: float) -> Slices:
        """Compute a page, which the generator returns. `now` is in seconds since the epoch."""
        return _PAGES[query.view](self._sources, query, now)
