"""The files of a lake beside its logs: placement, secret, addresses; on a disk or a store.

It may import `lake`, `tables.journal`, `tables.delta`, `tables.home` and `tables.object_home`.
Start with `lake`.
"""
