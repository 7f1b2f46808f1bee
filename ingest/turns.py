"""How many of a peer's bytes one turn of the loop takes: a river in large runs, little of a peer
whose frames are slow work (links that come and go by the thousand), so that others have their turn.
"""

#: Bytes that one read of a socket takes at most; also the longest run that can arrive at once.
READ_BYTES = 1 << 19
#: Bytes of a peer's first read, and those below which no read is cut.
READ_BYTES_FIRST = 1 << 16
READ_BYTES_MIN = 1 << 13
#: Seconds that the frames of one read may take until the next one brings fewer.
TURN_SECONDS = 0.03


def next_room(room: int, seconds: float) -> int:
    """How many bytes a peer's next read may bring after one of `room` bytes took so long."""
    if seconds > TURN_SECONDS:
        return max(room // 4, READ_BYTES_MIN)
    if seconds < TURN_SECONDS / 8:
        return min(2 * room, READ_BYTES)
    return room
