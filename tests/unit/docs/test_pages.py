"""Whole pages: the links of pages outside the site, and the rendering of pages on the site."""

import re
from collections.abc import Iterator
from pathlib import Path

import markdown
import pytest
from markdown.extensions.toc import slugify
from markdown_it import MarkdownIt
from mkdocs.config import load_config

import site_hooks
from documents import PAGES, ROOT

DOCS = ROOT / "docs"
TAGS = ("h1", "h2", "h3", "li", "ol", "ul", "pre", "table", "tr", "td", "th", "img")
COMMON = MarkdownIt("commonmark").enable("table")
_SOURCE = r'<[^>]*\bsrc(?:set)?="([^"]*)"'


def links(page: Path) -> Iterator[str]:
    for token in COMMON.parse(page.read_text()):
        for child in token.children or ():
            target = child.attrs.get("href") or child.attrs.get("src")
            if target:
                yield str(target)


def anchors(page: Path) -> set[str]:
    return {slugify(title, "-") for title in re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)}


def by_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_there_are_links_and_pictures_to_check() -> None:
    """Not every page has links and pictures, so each test below may have nothing to check on a page."""
    assert any(next(links(page), "") for page in PAGES if not page.is_relative_to(DOCS))
    assert any(re.search(_SOURCE, page.read_text()) for page in PAGES)


@pytest.mark.parametrize("page", [page for page in PAGES if not page.is_relative_to(DOCS)], ids=by_name)
def test_the_target_of_a_link_exists(page: Path) -> None:
    """hack/verify-docs checks the links of docs/ when it builds the site."""
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_a_picture_in_html_exists(page: Path) -> None:
    for path in re.findall(_SOURCE, page.read_text()):
        assert (page.parent / path).is_file(), path


def test_each_picture_is_listed_with_the_command_that_creates_it() -> None:
    rows = re.findall(
        r"^\| (`.*\.(?:png|svg)`) \| .+ \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE
    )
    told = [name for row in rows for name in re.findall(r"`(.*?)`", row)]
    assert sorted(told) == sorted(path.name for path in (DOCS / "images").iterdir())


def test_each_picture_is_shown() -> None:
    text = "".join(page.read_text() for page in PAGES)
    assert [path.name for path in (DOCS / "images").iterdir() if f"images/{path.name}" not in text] == []


@pytest.fixture(scope="module")
def site() -> markdown.Markdown:
    config = load_config(str(ROOT / "mkdocs.yml"))
    return markdown.Markdown(extensions=config.markdown_extensions, extension_configs=config.mdx_configs)


@pytest.mark.parametrize("page", [page for page in PAGES if page.is_relative_to(DOCS)], ids=by_name)
def test_a_page_reads_the_same_on_the_site(page: Path, site: markdown.Markdown) -> None:
    """Forges and the site parse Markdown by different rules, in particular lists."""
    text = page.read_text()
    elsewhere, here = COMMON.render(text), site.reset().convert(site_hooks.unescaped(text))
    for tag in TAGS:
        start = re.compile(rf"<{tag}[ >/]")
        assert len(start.findall(here)) == len(start.findall(elsewhere)), tag
