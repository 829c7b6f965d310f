"""The questions of a quote, and the answers of clusters."""

from typing import Any

import pytest

from builders import Json, reservation_json
from tidelock.cli.documents import Document
from tidelock.cli.quote import QuoteAnswer, QuoteQuestion, plain, screen
from unit.cli.quotes import FITS, LATER, NEVER, UNKNOWN
from unit.cli.screens import assert_screen


def question(label: str = "web-0", **body: Any) -> QuoteQuestion:
    quote = {"kind": "ReservationQuote", "spec": {"resources": {"cpu": "2"}}}
    return QuoteQuestion(label, Document(label, quote | body))


def test_the_answer_of_one_cluster_is_shown() -> None:
    assert_screen("quote", screen([QuoteAnswer(question("cpu=2"), raw_status=FITS)]))


def test_answers_of_several_clusters_are_shown_by_context() -> None:
    web, gpu = question(), question("gpu-0")
    answers = [
        QuoteAnswer(web, "east", FITS),
        QuoteAnswer(gpu, "east", LATER),
        QuoteAnswer(web, "west", NEVER),
        QuoteAnswer(gpu, "west", UNKNOWN),
        QuoteAnswer(web, "north", failure="no answer from https://north"),
    ]
    assert_screen("quote-contexts", screen(answers))


@pytest.mark.parametrize(("told", "feasible"), [(FITS, True), (LATER, False), (UNKNOWN, False), ({}, False)])
def test_only_an_answer_that_fits_now_is_feasible(told: Json, feasible: bool) -> None:
    assert QuoteAnswer(question(), raw_status=told).feasible is feasible


def test_a_reservation_is_quoted_by_its_requirements() -> None:
    lock = {"kind": "Reservation"} | reservation_json(
        nodeName="a", priority=3, ttlSeconds=7200, reuse="Always"
    )
    assert question(**lock).spec == {
        "resources": {"cpu": "1"},
        "nodeName": "a",
        "priority": 3,
        "ttlSeconds": 60,  # the default of quotes
    }


def test_the_spec_of_a_quote_is_sent_unchanged_with_a_default_ttl() -> None:
    spec = {"resources": {"cpu": "1"}, "ttlSeconds": 9, "validSeconds": 30}
    assert question(spec=spec).spec == spec
    assert question().spec["ttlSeconds"] == 60


def test_a_machine_readable_answer_has_spec_and_status() -> None:
    spec = {"ttlSeconds": 60, "resources": {"cpu": "2"}}
    assert plain(QuoteAnswer(question(), raw_status=FITS)) == {
        "asked": "web-0",
        "feasible": True,
        "spec": spec,
        "status": FITS,
    }
    assert plain(QuoteAnswer(question(), "west", failure="no")) == {
        "context": "west",
        "asked": "web-0",
        "feasible": False,
        "spec": spec,
        "error": "no",
    }
