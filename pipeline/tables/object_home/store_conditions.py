"""Check of a store for a home: the safety of a home rests on the store's conditional puts."""

from secrets import token_hex

from distributary.pipeline.tables.delta.object_store import ObjectStore

#: Folder of the test objects, below the home.
PROBE = "probe"


def keeps_conditions(store: ObjectStore) -> bool:
    """Whether the store refuses a put that must not replace anything if the object exists, and a
    put that must replace a seen version if it has changed. Tried on a new object, which is removed.
    Raises OSError and UndecidedError while the store doesn't answer."""
    path = f"{PROBE}/{token_hex(8)}"
    store.create(path, b"first")
    kept = not store.create(path, b"second")
    _, seen = store.tagged(path)
    store.put(path, b"third")
    kept = store.exchange(path, b"fourth", seen) is None and kept
    store.delete([path])
    return kept
