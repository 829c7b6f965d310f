"""Alerts fire when they should and lead to a runbook. promtool tests the rules with alerts.yaml."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown.extensions.toc import slugify

from unit.manifests.promtool import run_promtool

ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "manifests" / "monitoring" / "rules.yaml"
RULE_TESTS = Path(__file__).with_name("alerts.yaml")

SPEC: dict[str, Any] = yaml.safe_load(RULES.read_text())["spec"]
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in SPEC["groups"] for rule in group["rules"]
}


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Return the rules as Prometheus reads them, from the object for the Prometheus operator."""
    written = tmp_path / RULES.name
    written.write_text(yaml.safe_dump(SPEC))
    return written


def test_every_alert_fires_and_is_silent_as_it_should(promtool: Path, rules: Path) -> None:
    rule_tests = rules.with_name(RULE_TESTS.name)
    rule_tests.write_text(RULE_TESTS.read_text())
    run_promtool(promtool, "test", "rules", rule_tests)


def test_the_rules_are_valid_for_prometheus(promtool: Path, rules: Path) -> None:
    run_promtool(promtool, "check", "rules", "--lint=all", "--lint-fatal", rules)


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_is_tested_firing_and_silent(alert: str) -> None:
    looks = [
        look for test in yaml.safe_load(RULE_TESTS.read_text())["tests"] for look in test["alert_rule_test"]
    ]
    assert {bool(look.get("exp_alerts")) for look in looks if look["alertname"] == alert} == {True, False}


def headings() -> list[str]:
    return re.findall(r"^## (.+)$", (ROOT / "docs" / "runbooks.md").read_text(), re.MULTILINE)


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert headings() == list(ALERTS)


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_leads_to_its_runbook(alert: str) -> None:
    """The page is one of the site, where each page is a file and each heading has an anchor."""
    page, _, anchor = ALERTS[alert]["annotations"]["runbook_url"].partition("#")
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert not site["use_directory_urls"]
    assert page == "https://tidelock.dev/runbooks.html"
    assert {slugify(each, "-"): each for each in headings()}[anchor] == alert
