"""Hooks of mkdocs for this site.

A manifest or other file of the repository that a page links to becomes part of the site. Code in tables is
rendered as on GitHub and other forges.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

_FOLDER = "files"
_LINK = re.compile(r"(?<=\]\()(?:\.\./)[^)#\s]+(?=\))")
_ROW = re.compile(r"^\|.*$", re.MULTILINE)
_CODE = re.compile(r"`[^`]*`")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Change a page before it is rendered."""
    return unescaped(_contained(markdown, page, config, files))


def _contained(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links that lead out of the folder to copies. A link to a folder outside of it fails the build."""
    root = Path(config.docs_dir).parent

    def within(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(config.docs_dir, page.file.src_uri, "..", link[0]))
        outside = Path(path)
        if outside.is_relative_to(config.docs_dir) or not outside.is_file():
            return link[0]
        copy = f"{_FOLDER}/{outside.relative_to(root)}"
        if outside.suffix == ".md":  # otherwise mkdocs would make it a page of the site
            copy += ".txt"
        if files.get_file_from_path(copy) is None:
            files.append(File.generated(config, copy, abs_src_path=path))
        return get_relative_url(copy, page.file.src_uri)

    return _LINK.sub(within, markdown)


def unescaped(markdown: str) -> str:
    """Remove the escape of a bar within code in a table.

    Forges need the escape, but Python's Markdown shows it.
    """
    return _ROW.sub(
        lambda row: _CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]),
        markdown,
    )
