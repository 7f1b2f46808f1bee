"""Request and reply: a client sends a request to a topic, another one answers to a temporary queue.

Both are non-persistent. In turn the topics' `storage` is `log`, where each of the two messages
waits for a group, and `non_persistent`, where neither does: whatever else the machine does slows
both down. So it does the bare sockets: as many bytes through a process that only passes them on.
"""

import multiprocessing
import socket
import time

import numpy as np

from tests.bench import frames
from tests.bench.bench import Bench, Measurement
from tests.bench.peer import LoadError, Peer

ROUND_TRIPS = 2_000
#: They are measured in turn, so many times.
ROUNDS = 2
DATA_BYTES = 256
#: Messages that a receiver takes until it gives credit anew.
CREDIT = 1_000


class Sender:
    """A link that sends one message at a time."""

    def __init__(self, peer: Peer, attach: bytes, payload: bytes) -> None:
        self._peer, self._payload, self._sent = peer, payload, 0
        peer.attach(attach)

    def send(self) -> None:
        self._peer.socket.sendall(frames.transfer(self._sent, self._payload))
        self._sent += 1
        if self._sent % CREDIT == 0:
            self._peer.socket.recv(1 << 18)  # what it was told meanwhile


class Receiver:
    """A link that takes one message at a time; `address` is what it consumes from."""

    def __init__(self, peer: Peer, attach: bytes) -> None:
        self._socket, self._received, self._buffer = peer.socket, 0, bytearray()
        source = peer.attach(attach)[5]
        assert isinstance(source, frames.Described)
        assert isinstance(source.value, list)
        self.address = str(source.value[0])
        self._socket.sendall(frames.flow(0, CREDIT))

    def take(self) -> None:
        """Wait for the next message, and settle it."""
        before = self._received
        while self._received == before:
            data = self._socket.recv(1 << 16)
            if not data:
                raise LoadError("the server closed the connection")
            self._buffer += data
            for one in frames.split(self._buffer):
                self._received += one.code == frames.TRANSFER
        done = frames.disposition(before, self._received - 1)
        if self._received % (CREDIT // 2) == 0:
            done += frames.flow(self._received, CREDIT)
        self._socket.sendall(done)


def _round_trips(bench: Bench, storage: str) -> list[float]:
    """Milliseconds of each round trip."""
    with bench.fresh({"TOPIC_STORAGE": storage}) as server:
        peers = [Peer(server.endpoint) for _ in range(4)]
        topic = bench.name("requests")
        service = Receiver(peers[0], frames.plain_consumer("service", topic))
        replies = Receiver(peers[1], frames.temporary_consumer("replies"))
        payload = frames.message(DATA_BYTES, topic, durable=False)
        client = Sender(peers[2], frames.attach_sender("client", topic), payload)
        answers = Sender(
            peers[3], frames.attach_sender("answers", replies.address, "temporary-queue"), payload
        )
        took: list[float] = []
        for _ in range(bench.settings.count(ROUND_TRIPS)):
            began = time.perf_counter()
            client.send()
            service.take()
            answers.send()
            replies.take()
            took.append(1_000 * (time.perf_counter() - began))
        for peer in peers:
            peer.close()
    return took


def _pass_on(listening: socket.socket) -> None:
    """Pass on what comes from the first peer to the second, and from the third to the fourth."""
    peers = [listening.accept()[0] for _ in range(4)]
    for peer in peers:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client, service, answers, replies = peers
    while data := client.recv(1 << 16):
        service.sendall(data)
        replies.sendall(answers.recv(1 << 16))


def _bare_round_trips(count: int) -> list[float]:
    """Milliseconds of each round trip of as many bytes over as many sockets, through a process that
    passes them on: what no server between two clients can be quicker than."""
    payload = frames.transfer(0, frames.message(DATA_BYTES, "requests", durable=False))
    took: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        between = multiprocessing.get_context("spawn").Process(target=_pass_on, args=(listening,))
        between.start()
        peers = [socket.create_connection(listening.getsockname()) for _ in range(4)]
        for peer in peers:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client, service, answers, replies = peers
        for _ in range(count):
            began = time.perf_counter()
            client.sendall(payload)
            service.recv(1 << 16)
            answers.sendall(payload)
            replies.recv(1 << 16)
            took.append(1_000 * (time.perf_counter() - began))
        for peer in peers:
            peer.close()
        between.join()
    return took


def reply(bench: Bench) -> Measurement:
    """Latencies are those of what stays in memory; `ratio` compares them with the log's,
    `bare_ratio` with the bare sockets'."""
    measurement = Measurement()
    logged: list[float] = []
    bare: list[float] = []
    for _ in range(ROUNDS):
        bare += _bare_round_trips(bench.settings.count(ROUND_TRIPS))
        logged += _round_trips(bench, "log")
        measurement.latencies_ms += _round_trips(bench, "non_persistent")
    facts = measurement.facts
    facts["bare_p50_ms"] = float(np.median(bare))
    facts["bare_ratio_p50"] = float(np.median(measurement.latencies_ms)) / facts["bare_p50_ms"]
    facts["log_p50_ms"], facts["log_p99_ms"] = np.percentile(logged, (50, 99))
    facts["ratio_p50"] = float(np.median(measurement.latencies_ms)) / facts["log_p50_ms"]
    return measurement
