"""Looks into the lake for the owners of its logs, on a thread: a disk or a store may take long."""

import asyncio

import msgspec

from distributary.ingest.runtime.workers import Worker
from distributary.pipeline.log_names import private_number
from distributary.pipeline.tables.lake.lake import Lake, OwnerAddress


class FoundOwner(msgspec.Struct, frozen=True):
    """Address at which a log's owner listens, and the secret by which gateways log in there."""

    address: OwnerAddress
    secret: str


class LakeLooks:
    """Looks into a lake, from its making until `close`."""

    def __init__(self, lake: Lake, loop: asyncio.AbstractEventLoop) -> None:
        self._lake = lake
        self._private = asyncio.Lock()
        self._worker: Worker[FoundOwner | None] = Worker("lake", loop)

    async def owner(self, log: str) -> FoundOwner | None:
        """Return the owner of a log; None if none has said where it listens. Raises StoreError."""
        if private_number(log) is None:
            return await self._worker.ask(lambda: self._look(log))
        # Clients may name any number of private logs: other looks wait behind one of them at most.
        async with self._private:
            return await self._worker.ask(lambda: self._look(log))

    def _look(self, log: str) -> FoundOwner | None:
        address = self._lake.address_of(log)
        return None if address is None else FoundOwner(address, self._lake.secret())

    def close(self) -> None:
        """Look no more."""
        self._worker.leave()
