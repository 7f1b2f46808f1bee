"""How many messages an operation took from a subscription, in its answer."""

from distributary.ingest.subscriptions.operations import Facts


def dropped_by(done: Facts) -> int:
    """The number; 0 of an operation that drops nothing."""
    count = done.get("dropped", 0)
    return count if isinstance(count, int) else 0


def lost(done: Facts) -> str:
    """The end of the sentence that says what was done; nothing where nothing is ever dropped."""
    if "dropped" not in done:
        return ""
    most = " at most" if done.get("at_most") else ""
    return f"; messages dropped{most}: {dropped_by(done)}"
