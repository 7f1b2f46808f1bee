"""The patterns that are claimed, and which of them a topic matches.

Rule 1: a topic is looked up once, when it becomes known, and again when there are other patterns;
        never for a message. So thousands of patterns cost a publisher what none cost.
Rule 2: a look-up goes over the topic's words, not over the patterns.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from distributary.pipeline.model.address import PATTERN_PREFIX, Kind, kind_of_topic
from distributary.pipeline.model.topic_pattern import REST, WORD

#: Topics of which the patterns are remembered; with more of them all are looked up again.
TOPICS_MAX: Final = 100_000


class _Node(msgspec.Struct, eq=False):
    """The patterns that have the words up to here, by the next word; `loops`: it is the node of a
    rest, which takes any number of words. `pattern` is the one that ends here."""

    loops: bool = False
    next: dict[str, "_Node"] = msgspec.field(default_factory=dict)
    pattern: str = ""


class PatternIndex:
    """Claimed patterns as a trie of their words."""

    __slots__ = ("_of_topic", "_root", "claims")

    def __init__(self) -> None:
        self._root = _Node()
        #: What is claimed: to be read alone.
        self.claims: dict[str, None] = {}
        self._of_topic: dict[str, tuple[str, ...]] = {}

    def __contains__(self, pattern: str) -> bool:
        return pattern in self.claims

    def __iter__(self) -> Iterator[str]:
        return iter(self.claims)

    def __len__(self) -> int:
        return len(self.claims)

    def add(self, pattern: str) -> None:
        """Somebody claims this pattern (its word in the log). To add it again is no error."""
        if pattern in self.claims:
            return
        node = self._root
        for word in _words(pattern):
            node = node.next.setdefault(word, _Node(loops=word == REST))
        node.pattern = pattern
        self.claims[pattern] = None
        self._of_topic.clear()

    def remove(self, pattern: str) -> None:
        """Nobody claims it any more. To remove it again is no error."""
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
        """The patterns that the topic matches, in the order of their words. Other destinations, and
        patterns themselves, match none."""
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
    """These nodes, and those behind a rest that takes no word."""
    found = dict(nodes)
    for node in nodes:  # no rest follows a rest: patterns are shortened
        if (rest := node.next.get(REST)) is not None:
            found[rest] = None
    return found


def _words(pattern: str) -> list[str]:
    return pattern.removeprefix(PATTERN_PREFIX).split(".")
