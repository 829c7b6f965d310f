"""The image's bill of materials in CycloneDX: python -m sbom [FILE].

It is written to build/tidelock.cdx.json by default. The image has the packages that requirements.lock pins,
installed by the hashes in it. The same lock file always yields the same output, so that two releases can be
compared.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

from audit import requirements
from tidelock import __version__

_LOCK = Path(__file__).resolve().parents[1] / "requirements.lock"
_DEFAULT = Path("build") / "tidelock.cdx.json"


def packages(lock: str) -> Iterator[Component]:
    """Yield a component for each requirement of a lock file: a package of PyPI and its file hashes."""
    for line, hashes in requirements(lock):
        requirement = Requirement(line)
        (pin,) = requirement.specifier
        url = PackageURL("pypi", name=requirement.name, version=pin.version)
        files = [HashType(alg=HashAlgorithm.SHA_256, content=each.removeprefix("sha256:")) for each in hashes]
        yield Component(
            name=requirement.name, version=pin.version, purl=url, bom_ref=url.to_string(), hashes=files
        )


def write(lock: Path, file: Path) -> None:
    """Write the bill of materials for a lock file."""
    image = Component(
        name="tidelock", version=__version__, type=ComponentType.APPLICATION, bom_ref="tidelock"
    )
    bom = Bom(components=packages(lock.read_text()))
    bom.metadata.component = image
    bom.register_dependency(image, bom.components)
    # These two would differ each time. Both are optional in CycloneDX.
    bom.metadata.timestamp = bom.serial_number = None  # type: ignore[assignment]
    file.parent.mkdir(parents=True, exist_ok=True)
    JsonV1Dot6(bom).output_to_file(str(file), allow_overwrite=True, indent=2)


def main(arguments: list[str]) -> int:
    """Write the bill of materials to the given file, and return the exit status."""
    file = Path(arguments[0]) if arguments else _DEFAULT
    write(_LOCK, file)
    print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
