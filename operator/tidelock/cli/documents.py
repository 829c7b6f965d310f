"""The objects of a YAML or JSON file, which may contain several."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tidelock.cli.failure import Failure
from tidelock.framework.config_file import StrictLoader


class _Loader(StrictLoader):
    """YAML as kubectl reads it, where a time is a text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 -- as in the base class
        first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in StrictLoader.yaml_implicit_resolvers.items()
    }

    def text(self, node: yaml.ScalarNode) -> str:
        """Read a text, and replace a lone surrogate, which JSON can't hold, by U+FFFD like the API server."""
        text: str = self.construct_scalar(node)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_Loader.add_constructor("tag:yaml.org,2002:str", _Loader.text)


@dataclass(frozen=True, slots=True)
class Document:
    """An object of a file, with its `place` for messages."""

    place: str
    body: dict[str, Any]

    @property
    def kind(self) -> str:
        """API version and kind, as in `tidelock.dev/v1alpha1 Reservation`."""
        return f"{self.body.get('apiVersion', '')} {self.body.get('kind', '')}".strip()

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata, or empty if there are none."""
        metadata = self.body.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.metadata.get("name", ""))

    @property
    def namespace(self) -> str:
        """The object's namespace, or empty if it is not set."""
        return str(self.metadata.get("namespace") or "")


def read_documents(file: str) -> list[Document]:
    """Read a file, or standard input for `-`, or raise Failure if it contains anything but objects."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise Failure(f"{file}: {error.strerror}; name a file with -f") from error
    except UnicodeDecodeError as error:
        raise Failure(f"{file}: is not UTF-8: {error.reason}; save it as UTF-8") from error
    try:
        loaded = list(yaml.load_all(text, _Loader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())
        raise Failure(f"{file}: is not YAML: {problem}") from error
    bodies = [item for body in loaded if body is not None for item in _items(body)]
    documents = []
    for number, body in enumerate(bodies, start=1):
        place = f"{file}: document {number}"
        if not isinstance(body, dict):
            raise Failure(f"{place}: should be an object with apiVersion, kind, metadata and spec")
        documents.append(Document(_place(place, body), body))
    if not documents:
        raise Failure(f"{file}: it is empty; add a Reservation, see manifests/samples")
    return documents


def _items(body: Any) -> list[Any]:
    """Return the items of a List."""
    if isinstance(body, dict) and body.get("kind") == "List" and isinstance(body.get("items"), list):
        return list(body["items"])
    return [body]


def _place(place: str, body: dict[str, Any]) -> str:
    metadata = body.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    named = "/".join(str(part) for part in (body.get("kind", ""), name) if part)
    return f"{place} ({named})" if named else place
