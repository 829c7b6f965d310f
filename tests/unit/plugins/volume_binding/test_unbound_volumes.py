import numpy as np
import pytest

from builders import node
from storage import ZONE, claim, labelled, on_nodes, volume
from tidelock.cluster.columns import Columns
from tidelock.model.storage import PersistentVolume, PersistentVolumeClaim
from tidelock.plugins.volume_binding.label_rows import LabelRows
from tidelock.plugins.volume_binding.unbound_volumes import UnboundVolumes

HOST = "kubernetes.io/hostname"
SIZE = 30


class Store:
    """Unbound volumes beside thirty nodes in two zones."""

    def __init__(self, *volumes: PersistentVolume) -> None:
        self.columns = Columns()
        for row in range(SIZE):
            self.columns.put(node(f"n{row}", labels={HOST: f"n{row}", ZONE: "ab"[row % 2]}))
        self.labels = LabelRows(self.columns)
        self.shelf = UnboundVolumes()
        for each in volumes:
            self.shelf.put(each)

    def names(
        self, wanting: PersistentVolumeClaim, *promised: str, taken: tuple[list[str], ...] = ()
    ) -> list[str]:
        """Return the name of the volume that a claim would get on each row."""
        places = {each.meta.name: place for place, each in enumerate(self.shelf.volumes)} | {"": -1}
        others = [np.array([places[name] for name in names], np.intp) for names in taken]
        everywhere = np.ones(SIZE, np.bool_)
        chosen = self.shelf.choose(wanting, everywhere, self.labels, promised=promised, taken=others)
        return ["" if place < 0 else self.shelf.volumes[place].meta.name for place in chosen]


def test_a_claim_gets_the_smallest_volume_that_each_node_reaches() -> None:
    store = Store(
        volume("everywhere", capacity="5Gi"),
        volume("zone", capacity="3Gi", affinity=labelled(ZONE, "b")),
        volume("own", capacity="4Gi", affinity=on_nodes("n0")),
        volume("large", capacity="9Gi", affinity=on_nodes("n1")),
        volume("tiny", capacity="1Gi", affinity=on_nodes("n2")),
    )
    names = store.names(claim(size="2Gi"))
    assert names[:4] == ["own", "zone", "everywhere", "zone"]
    assert set(names[4:]) == {"everywhere", "zone"}


def test_a_volume_for_another_claim_is_left_out_on_that_node() -> None:
    store = Store(volume("one"), volume("two"), volume("zone", affinity=labelled(ZONE, "a")))
    first = store.names(claim())
    assert first == ["one"] * SIZE
    second = store.names(claim(), taken=(first,))
    assert second == ["two"] * SIZE
    third = store.names(claim(), taken=(first, second))
    assert third == ["zone", ""] * (SIZE // 2)


def test_assumed_volumes_are_left_out_on_all_nodes() -> None:
    store = Store(volume("one"), volume("own", affinity=on_nodes("n0")))
    assert store.names(claim(), "one", "unheard-of") == ["own"] + [""] * (SIZE - 1)


def test_removed_added_and_changed_volumes_change_the_choice() -> None:
    store = Store(volume("one", capacity="1Gi"), volume("two", capacity="2Gi"))
    assert store.names(claim())[0] == "one"
    store.shelf.drop("one")
    assert store.names(claim())[0] == "two"
    store.shelf.put(volume("one", capacity="1Gi", version=7))
    assert store.names(claim())[0] == "one"
    store.shelf.put(volume("one", capacity="3Gi"))
    assert store.names(claim())[0] == "two"
    store.shelf.put(volume("new", capacity="1500Mi"))
    assert store.names(claim())[0] == "new"
    store.shelf.drop("new")
    store.shelf.drop("two")
    assert store.names(claim())[0] == "one"
    assert len(store.shelf) == 1


def test_changed_nodes_change_the_choice() -> None:
    store = Store(volume("own", affinity=on_nodes("n3")))
    assert store.names(claim()).index("own") == 3
    store.columns.put(node("n3", labels={}))
    store.columns.put(node("n5", labels={HOST: "n3"}))
    assert store.names(claim()).index("own") == 5


@pytest.mark.parametrize("wanting", [claim(), claim(selector={"matchLabels": {"disk": "ssd"}})])
def test_without_volumes_nothing_is_chosen(wanting: PersistentVolumeClaim) -> None:
    assert Store().names(wanting) == [""] * SIZE


def test_a_selector_is_compared_with_each_volume() -> None:
    store = Store(
        volume("hdd", labels={"disk": "hdd"}), volume("ssd", labels={"disk": "ssd"}, capacity="5Gi")
    )
    assert store.names(claim(selector={"matchLabels": {"disk": "ssd"}}))[0] == "ssd"
