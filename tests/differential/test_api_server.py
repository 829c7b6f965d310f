"""The API server in memory answers as a real one.

It needs a real API server, with which random sequences of requests compare it: their answers, refusals and
watch events. `python -m world.differential` runs more of them.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest

from cluster.crds import install_crds
from devcluster import start_cluster
from sampling import seeds
from world.differential.compare import compare, difference
from world.differential.differences import DIFFERENCES
from world.differential.sides import Real
from world.differential.stories import STORIES, compare_story

SEEDS = seeds("TIDELOCK_API_SEEDS", 12, 200)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    """Yield a real API server without controllers, which would write beside the sequences."""
    folder = tmp_path_factory.mktemp("world")
    with start_cluster(folder, controller_manager=False, kwok=False) as cluster:
        install_crds(cluster)
        with closing(Real(cluster.kubeconfig)) as made:
            yield made


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sequence_of_requests_has_the_same_answers(real: Real, seed: int) -> None:
    assert "\n".join(map(str, compare(seed, real, "test"))) == ""


@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_story_has_the_same_answers(real: Real, name: str) -> None:
    assert "\n".join(map(str, compare_story(name, real))) == ""


def test_a_difference_is_found() -> None:
    assert list(difference({"a": [1, 2]}, {"a": [1, 3]})) == [(".a[1]", 2, 3)]
    assert list(difference({"a": 1}, {"a": True})) == [(".a", 1, True)]


def test_each_known_difference_has_a_reason() -> None:
    assert all(each.reason.endswith(".") for each in DIFFERENCES)
