"""A client of $management that speaks plain AMQP: a message out, a message in."""

from dataclasses import dataclass
from itertools import count
from typing import Any

from gateway_links import Incoming, Outgoing, encoded
from gateway_peer import Peer

NODE = "$management"
_numbers = count(1)


@dataclass(frozen=True)
class Answer:
    status: int
    text: str
    body: Any


class Manager:
    """One connection's two links to the node."""

    def __init__(self, peer: Peer) -> None:
        self.peer, self.address = peer, f"answers-{next(_numbers)}"
        self.requests: Outgoing = peer.sender(NODE)
        self.answers: Incoming = peer.receiver(NODE, capabilities=(), target=self.address)

    def send(self, operation: str, kind: str, name: str = "", log: str = "", **body: object) -> int:
        """Send a request without waiting for its answer; its number. `log`: asks that one."""
        number = next(_numbers)
        said = {"operation": operation, "type": kind}
        said |= {key: word for key, word in (("name", name), ("log", log)) if word}
        attributes = {key: value for key, value in body.items() if value is not None}
        data = encoded(attributes, properties=said, id=number, reply_to=self.address)
        self.peer.until(lambda: self.requests.link.credit > 0, "credit for a request")
        self.requests.send(data)
        return number

    def answer(self, number: int) -> Answer:
        """The next answer, which must be that of this request."""
        message = self.answers.take()[0].message
        assert message.correlation_id == number
        said = message.properties
        return Answer(said["statusCode"], said["statusDescription"], message.body)

    def ask(self, operation: str, kind: str, name: str = "", **body: object) -> Answer:
        return self.answer(self.send(operation, kind, name, **body))

    def done(self, operation: str, kind: str, name: str = "", **body: object) -> Any:
        """The body of an answer, which must be a yes."""
        answer = self.ask(operation, kind, name, **body)
        assert answer.status in {200, 201, 204}, answer
        return answer.body

    def refused(self, status: int, operation: str, kind: str, name: str = "", **body: Any) -> str:
        """The sentence of an answer, which must be a no."""
        answer = self.ask(operation, kind, name, **body)
        assert answer.status == status, answer
        return answer.text
