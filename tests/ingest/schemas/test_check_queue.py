"""Messages that wait to be checked: each peer's in its order, peers in turn."""

from random import Random

from distributary.ingest.schemas.check_queue import CheckQueue


def test_peers_are_served_in_turn() -> None:
    """One with much to check takes no more turns than one with little."""
    queue: CheckQueue[str, str] = CheckQueue()
    for one in ("a1", "a2", "a3", "b1", "c1", "b2"):
        queue.add(one[0], one, (one[0],), 1)
    assert [queue.take() for _ in range(6)] == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert queue.take() is None


def test_a_key_waits_until_all_with_it_are_done() -> None:
    queue: CheckQueue[str, int] = CheckQueue()
    queue.add("a", 1, ("link",), 1)
    queue.add("a", 2, ("link", "a"), 1)
    assert (queue.take(), queue.take()) == (1, 2)
    assert queue.waits("link")
    assert queue.waits("a")
    assert queue.done() == 1
    assert queue.waits("link")
    assert queue.done() == 2
    assert not queue.waits("link")
    assert not queue.waits("a")
    assert not queue


def test_nothing_is_lost_or_overtakes_its_peer() -> None:
    for seed in range(200):
        drawn, queue = Random(seed), CheckQueue[int, tuple[int, int]]()
        added: list[tuple[int, int]] = []
        done: list[tuple[int, int]] = []
        for number in range(100):
            peer = drawn.randrange(4)
            added.append((peer, number))
            queue.add(peer, (peer, number), (peer,), 1)
            for _ in range(drawn.randrange(3)):
                queue.take()
            while queue.taken and drawn.random() < 0.5:
                done.append(queue.done())
        while queue:
            queue.take()
            done.append(queue.done())
        for peer in range(4):
            assert [one for one in done if one[0] == peer] == [
                one for one in added if one[0] == peer
            ], seed


def test_who_floods_leaves_room_for_others() -> None:
    """However many flood, one that has nothing waiting has as much room as each of them; alone one
    has half."""
    for flooding in range(1, 6):
        queue: CheckQueue[int, None] = CheckQueue()
        for _ in range(1_000):
            for peer in range(flooding):
                if queue.has_room(peer, 1, 600):
                    queue.add(peer, None, (peer,), 1)
        share = 600 // (flooding + 1)
        assert queue.bytes == flooding * share
        assert queue.has_room(-1, share, 600)
        assert not queue.has_room(-1, share + 1, 600)
        assert not queue.has_room(0, 1, 600)


def test_there_is_room_for_anything_where_nothing_waits() -> None:
    queue: CheckQueue[int, None] = CheckQueue()
    assert queue.has_room(0, 10_000, 600)
    queue.add(0, None, (0,), 10_000)
    assert not queue.has_room(1, 0, 600)
    queue.take()
    queue.done()
    assert (queue.bytes, queue.has_room(1, 10_000, 600)) == (0, True)
