"""Whether a store is one that a home may lie in: all that is safe there rests on its conditions."""

from secrets import token_hex

from distributary.pipeline.tables.delta.object_store import ObjectStore

#: Where it is tried, below the home.
PROBE = "probe"


def keeps_conditions(store: ObjectStore) -> bool:
    """Whether a put that must not replace anything is refused where something is, and one that must
    replace what was seen where that has changed. Tried on an object of its own, which is removed.
    Raises OSError and UndecidedError while the store doesn't answer."""
    path = f"{PROBE}/{token_hex(8)}"
    store.create(path, b"first")
    kept = not store.create(path, b"second")
    _, seen = store.tagged(path)
    store.put(path, b"third")
    kept = store.exchange(path, b"fourth", seen) is None and kept
    store.delete([path])
    return kept
