"""The claimed patterns, and those of them that a topic matches.

Rule 1: a topic is looked up once, when it becomes known, and again when the patterns change; never
        for a message. So thousands of patterns cost a publisher no more than none.
Rule 2: a look-up goes over the topic's words, not over the patterns.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from distributary.pipeline.model.address import PATTERN_PREFIX, Kind, kind_of_topic
from distributary.pipeline.model.topic_pattern import REST, WORD

#: Topics whose patterns are remembered; when there are more, all are forgotten.
TOPICS_MAX: Final = 100_000


class _Node(msgspec.Struct, eq=False):
    """A node of the trie: its next nodes by the next word; `loops`: it is the node of a rest, which
    takes any number of words. `pattern` is the one that ends here, or empty."""

    loops: bool = False
    next: dict[str, "_Node"] = msgspec.field(default_factory=dict)
    pattern: str = ""


class PatternIndex:
    """Claimed patterns as a trie of their words."""

    __slots__ = ("_of_topic", "_root", "claims")

    def __init__(self) -> None:
        self._root = _Node()
        #: The claimed patterns; callers only read it.
        self.claims: dict[str, None] = {}
        self._of_topic: dict[str, tuple[str, ...]] = {}

    def __contains__(self, pattern: str) -> bool:
        return pattern in self.claims

    def __iter__(self) -> Iterator[str]:
        return iter(self.claims)

    def __len__(self) -> int:
        return len(self.claims)

    def add(self, pattern: str) -> None:
        """Add a claimed pattern (its word in the log). To add it again is no error."""
        if pattern in self.claims:
            return
        node = self._root
        for word in _words(pattern):
            node = node.next.setdefault(word, _Node(loops=word == REST))
        node.pattern = pattern
        self.claims[pattern] = None
        self._of_topic.clear()

    def remove(self, pattern: str) -> None:
        """Remove a pattern that is no longer claimed. To remove it again is no error."""
        if pattern not in self.claims:
            return
        del self.claims[pattern]
        self._of_topic.clear()
        way, node = [], self._root
        for word in _words(pattern):
            way.append((node, word))
            node = node.next[word]
        node.pattern = ""
        for before, word in reversed(way):
            if before.next[word].pattern or before.next[word].next:
                return
            del before.next[word]

    def of(self, topic: str) -> tuple[str, ...]:
        """Return the patterns that the topic matches, sorted. Other destinations, and patterns
        themselves, match none."""
        found = self._of_topic.get(topic)
        if found is None:
            if len(self._of_topic) >= TOPICS_MAX:
                self._of_topic.clear()
            found = self._of_topic[topic] = self._look_up(topic)
        return found

    def _look_up(self, topic: str) -> tuple[str, ...]:
        if not self.claims or topic.startswith(PATTERN_PREFIX):
            return ()
        if kind_of_topic(topic) is not Kind.TOPIC:
            return ()
        at = _reached({self._root: None})
        for word in topic.split("."):
            following: dict[_Node, None] = {}
            for node in at:
                if node.loops:
                    following[node] = None
                for known in (word, WORD):
                    if known != REST and known in node.next:
                        following[node.next[known]] = None
            at = _reached(following)
        return tuple(sorted(node.pattern for node in at if node.pattern))


def _reached(nodes: dict[_Node, None]) -> dict[_Node, None]:
    """Return these nodes, and those behind a rest that takes no word."""
    found = dict(nodes)
    for node in nodes:  # no rest follows a rest: patterns are shortened
        if (rest := node.next.get(REST)) is not None:
            found[rest] = None
    return found


def _words(pattern: str) -> list[str]:
    return pattern.removeprefix(PATTERN_PREFIX).split(".")
