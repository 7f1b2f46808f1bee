"""How many messages an operation took from a subscription, in its answer."""

from distributary.ingest.subscriptions.operations import Facts


def dropped_by(done: Facts) -> int:
    """How many messages the operation drops; 0 if it drops none."""
    count = done.get("dropped", 0)
    return count if isinstance(count, int) else 0


def lost(done: Facts) -> str:
    """The end of the sentence that says how many messages were dropped; empty for an operation
    that never drops any."""
    if "dropped" not in done:
        return ""
    most = " at most" if done.get("at_most") else ""
    return f"; messages dropped{most}: {dropped_by(done)}"
