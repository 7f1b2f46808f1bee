"""How much of a peer is read at once."""

from ingest.turns import READ_BYTES, READ_BYTES_FIRST, READ_BYTES_MIN, TURN_SECONDS, next_room


def test_a_quick_peer_is_read_in_large_runs_and_a_slow_one_in_small_ones() -> None:
    """It grows to the whole buffer, shrinks to a few frames, and stays where it is right."""
    room = READ_BYTES_FIRST
    for _ in range(10):
        room = next_room(room, 0.000_5)
    assert room == READ_BYTES
    assert next_room(room, TURN_SECONDS / 2) == room
    for _ in range(10):
        room = next_room(room, 2 * TURN_SECONDS)
    assert room == READ_BYTES_MIN
    assert next_room(room, 0.0) == 2 * READ_BYTES_MIN
