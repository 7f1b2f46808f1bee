"""An S3 over HTTP that is slow, errs, throttles and loses answers, as a plan says.

Run as a program (`python faulty_s3.py`) it prints its port and serves until it is killed. What it
holds to: a put is whole or not at all, `If-None-Match: *` and `If-Match` are decided at one moment,
lists and reads see what was put. What it does otherwise (`Plan`) is drawn by lot, from a seed.
Clients are told apart by their access key, so one can be cut off from it.

Requests without a key are Google's: its XML API has the same paths and lists, and conditions by an
object's generation (https://cloud.google.com/storage/docs/xml-api/reference-headers).
"""

import asyncio
import hashlib
import http.client
import itertools
import json
import math
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from email.utils import formatdate
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

#: Where the plan, the counts, the hold and the names are; no bucket has such a name.
PLAN, COUNTS, HOLD, NAMES = "/~plan", "/~counts", "/~hold", "/~names"
#: The bucket, which clients may give other names, and one that isn't there.
BUCKET, NO_BUCKET = "lake", "nothere"


@dataclass(frozen=True)
class Plan:
    """How requests go wrong. Rates are parts of all requests; times are seconds."""

    latency_ms: float = 0.0  #: the median of an answer's time
    spread: float = 0.2  #: of its logarithm
    errors: float = 0.0  #: 500, and nothing was done
    throttled: float = 0.0  #: 503 SlowDown, and nothing was done
    lost: float = 0.0  #: it was done, and the answer is 500, or the connection ends, or hangs
    repeated: float = 0.0  #: a put is done once more, later
    unconditional: str = ""  #: a condition of puts that is ignored: `if-match`, `if-none-match`
    hang_seconds: float = 3.0
    cut: tuple[str, ...] = ()  #: access keys whose requests get no answer; some of them are done
    seed: int = 0


def drawn_plan(draw: random.Random, rates: Sequence[float]) -> Plan:
    """A store: quick or slow, and one of these rates says how often it fails."""
    rate = draw.choice(rates)
    return Plan(
        latency_ms=draw.choice((0.0, 5.0, 20.0)),
        errors=rate,
        throttled=rate,
        lost=rate,
        repeated=draw.choice((0.0, 0.05)),
        hang_seconds=1.0,
        seed=draw.randrange(1 << 30),
    )


@dataclass
class _Object:
    data: bytes
    tag: str
    generation: int = 0
    at: float = field(default_factory=time.time)

    @property
    def said(self) -> dict[str, str]:
        """The headers that tell it from others under its name."""
        return {"etag": self.tag, "x-goog-generation": str(self.generation)}


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def key(self) -> str:
        found = re.search(r"Credential=([^/]+)/", self.headers.get("authorization", ""))
        return found[1] if found else ""

    @property
    def bucket(self) -> str:
        return unquote(self.path).lstrip("/").partition("/")[0]

    @property
    def object(self) -> str:
        """The key of the object that it is about."""
        return unquote(self.path).lstrip("/").partition("/")[2]

    @property
    def words(self) -> str:
        """The request in one line."""
        if "list-type" in self.query:
            return f"LIST {self.query.get('prefix', '')}"
        if "delete" in self.query:
            return f"DELETE {self.body.decode()}"
        return f"{self.method} {self.object}"


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def _error(status: int, code: str) -> _Answer:
    return _Answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())


class _Bucket:
    """The stored objects, and the effects of requests on them."""

    def __init__(self) -> None:
        self.objects: dict[str, _Object] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.generations = itertools.count(1)

    def done(self, request: _Request) -> _Answer:
        key = request.object
        match request.method:
            case "PUT" if "partNumber" in request.query:
                parts = self.uploads.setdefault(request.query["uploadId"], {})
                parts[int(request.query["partNumber"])] = request.body
                return _Answer(200, headers={"etag": f'"{len(parts)}"'})
            case "PUT" if "x-amz-copy-source" in request.headers:
                return self._copied(unquote(request.headers["x-amz-copy-source"]), key)
            case "PUT":
                return self._put(key, request.body, request.headers)
            case "POST" if "delete" in request.query:
                return self._deleted(re.findall(r"<Key>(.*?)</Key>", request.body.decode()))
            case "POST" if "uploads" in request.query:
                return self._begun(key)
            case "POST":
                parts = self.uploads.pop(request.query["uploadId"], {})
                whole = b"".join(parts[number] for number in sorted(parts))
                said = self._put(key, whole, request.headers)
                body = f"<CompleteMultipartUploadResult><ETag>{said.headers['etag']}</ETag>"
                return _Answer(200, f"{body}</CompleteMultipartUploadResult>".encode())
            case "GET" if not key:
                return self._list(request.query)
            case "GET" | "HEAD":
                return self._read(key, request.headers)
            case "DELETE":
                known = self.objects.pop(key, None) is not None or request.key
                return _Answer(204) if known else _error(404, "NoSuchKey")
        return _error(405, "MethodNotAllowed")

    def _deleted(self, names: list[str]) -> _Answer:
        for name in names:
            self.objects.pop(unescaped(name), None)
        said = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
        return _Answer(200, f"<DeleteResult>{said}</DeleteResult>".encode())

    def _put(self, key: str, data: bytes, headers: Mapping[str, str]) -> _Answer:
        there = self.objects.get(key)
        if headers.get("if-none-match") == "*" and there is not None:
            return _error(412, "PreconditionFailed")
        wanted = headers.get("if-match")
        if wanted is not None and (there is None or there.tag != wanted):
            return _error(412 if there is not None else 404, "PreconditionFailed")
        seen = headers.get("x-goog-if-generation-match")
        if seen is not None and int(seen) != (there.generation if there is not None else 0):
            return _error(412, "PreconditionFailed")
        digest = hashlib.md5(data).hexdigest()  # noqa: S324 (as S3 does)
        made = self.objects[key] = _Object(data, f'"{digest}"', next(self.generations))
        return _Answer(200, headers=made.said)

    def _copied(self, source: str, key: str) -> _Answer:
        found = self.objects.get(source.lstrip("/").partition("/")[2])
        if found is None:
            return _error(404, "NoSuchKey")
        tag = escape(self._put(key, found.data, {}).headers["etag"])
        said = f"<CopyObjectResult><ETag>{tag}</ETag></CopyObjectResult>"
        return _Answer(200, said.encode())

    def _begun(self, key: str) -> _Answer:
        upload = f"{len(self.uploads)}-{time.time_ns()}"
        self.uploads[upload] = {}
        said = (
            "<InitiateMultipartUploadResult>"
            f"<Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key><UploadId>{upload}</UploadId>"
            "</InitiateMultipartUploadResult>"
        )
        return _Answer(200, said.encode())

    def _read(self, key: str, headers: Mapping[str, str]) -> _Answer:
        found = self.objects.get(key)
        if found is None:
            return _error(404, "NoSuchKey")
        data, status = found.data, 200
        said = found.said | {"last-modified": formatdate(found.at, usegmt=True)}
        asked = re.match(r"bytes=(\d*)-(\d*)", headers.get("range", ""))
        if asked:
            size = len(data)
            first = int(asked[1]) if asked[1] else max(size - int(asked[2]), 0)
            last = min(int(asked[2]), size - 1) if asked[1] and asked[2] else size - 1
            data, status = data[first : last + 1], 206
            said["content-range"] = f"bytes {first}-{last}/{size}"
        return _Answer(status, data, said)

    def _list(self, query: Mapping[str, str]) -> _Answer:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        most = int(query.get("max-keys", "1000"))
        found: list[str] = []
        folders: dict[str, None] = {}
        more = last = ""
        for key in sorted(self.objects):
            if not key.startswith(prefix) or key <= after:
                continue
            if len(found) == most:
                more = last
                break
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            if cut >= 0:
                folders[key[: cut + 1]] = None
                continue
            found.append(self._listed(key))
            last = key
        text = "".join(found)
        text += "".join(
            f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in folders
        )
        token = f"<NextContinuationToken>{escape(more)}</NextContinuationToken>" if more else ""
        said = (
            f"<ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(found)}</KeyCount><MaxKeys>{most}</MaxKeys>"
            f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>{token}{text}"
            "</ListBucketResult>"
        )
        return _Answer(200, said.encode(), {"content-type": "application/xml"})

    def _listed(self, key: str) -> str:
        one = self.objects[key]
        at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(one.at))
        return (
            f"<Contents><Key>{escape(key)}</Key><LastModified>{at}</LastModified>"
            f"<ETag>{escape(one.tag)}</ETag><Size>{len(one.data)}</Size>"
            "<StorageClass>STANDARD</StorageClass></Contents>"
        )


def unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


class _Server:
    """One bucket behind a network that fails."""

    def __init__(self) -> None:
        self.bucket, self.plan = _Bucket(), Plan()
        self.draw = random.Random(0)
        self.counts: dict[str, int] = {}
        self.later: set[asyncio.Task[None]] = set()
        self.hold, self.held = ("", ""), set[int]()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read_request(reader, writer)) is not None:
                answer = self._told(request) or await self._answer(request)
                if answer is None:
                    break
                writer.write(_bytes(answer, head=request.method == "HEAD"))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _told(self, request: _Request) -> _Answer | None:
        """Answer an order or a question of the test; None for a client's request."""
        said: object = None
        match request.method, request.path:
            case "PUT", path if path == PLAN:
                words = json.loads(request.body)
                self.plan = Plan(**{**words, "cut": tuple(words["cut"])})
                self.draw = random.Random(self.plan.seed)
            case "PUT", path if path == HOLD:
                self.hold, self.held = tuple(json.loads(request.body)), set()
            case _, path if path == HOLD:
                said = len(self.held)
            case _, path if path == COUNTS:
                said = self.counts
            case _, path if path == NAMES:
                said = [*self.bucket.objects]
            case _:
                return None
        return _Answer(200, json.dumps(said).encode())

    async def _answer(self, request: _Request) -> _Answer | None:
        """The answer to a client; None: the connection ends without one."""
        while request.key and request.key == self.hold[0] and re.match(self.hold[1], request.words):
            self.held.add(id(request))
            await asyncio.sleep(0.02)
        plan, lot = self.plan, self.draw.random()
        if request.key in plan.cut:
            return await self._unheard(request)
        if plan.latency_ms:
            seconds = plan.latency_ms / 1_000 * math.exp(self.draw.gauss(0.0, plan.spread))
            await asyncio.sleep(seconds)  # the stimulus: a slow network
        if lot < plan.errors:
            return _error(500, "InternalError")
        if lot < plan.errors + plan.throttled:
            return _error(503, "SlowDown")
        answer = self._done(request)
        if self.draw.random() < plan.repeated and request.method == "PUT":
            self._do_later(request, self.draw.random() * 2)
        if lot < plan.errors + plan.throttled + plan.lost:
            return await self._lost()
        return answer

    def _done(self, request: _Request) -> _Answer:
        what = request.method + (" list" if "list-type" in request.query else "")
        self.counts[what] = self.counts.get(what, 0) + 1
        if ignored := self.plan.unconditional:
            kept = {name: one for name, one in request.headers.items() if name != ignored}
            request = replace(request, headers=kept)
        if request.bucket == NO_BUCKET:
            return _error(404, "NoSuchBucket")
        return self.bucket.done(request)

    async def _lost(self) -> _Answer | None:
        """It was done, and its client doesn't hear so."""
        match self.draw.randrange(3):
            case 0:
                return _error(500, "InternalError")
            case 1:
                return None
        await asyncio.sleep(self.plan.hang_seconds)  # the stimulus: it hangs
        return None

    async def _unheard(self, request: _Request) -> None:
        """The client is cut off. What it had sent may arrive yet, and late; no answer does."""
        if self.draw.random() < 0.5:
            self._do_later(request, self.draw.random() * self.plan.hang_seconds)
        await asyncio.sleep(self.plan.hang_seconds)  # the stimulus: it hangs

    def _do_later(self, request: _Request, seconds: float) -> None:
        async def do() -> None:
            await asyncio.sleep(seconds)  # the stimulus: it comes late
            self._done(request)

        task = asyncio.get_running_loop().create_task(do())
        self.later.add(task)
        task.add_done_callback(self.later.discard)


async def _read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> _Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    if "expect" in headers:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    if "aws-chunked" in headers.get("content-encoding", ""):
        body = b"".join(_chunks(body))
    parts = urlsplit(target)
    query = {name: values[0] for name, values in parse_qs(parts.query, True).items()}
    return _Request(method, parts.path, query, headers, body)


def _chunks(body: bytes) -> Iterator[bytes]:
    """The parts of a chunked body of Amazon's own client: each follows its size; the last is empty,
    with a checksum."""
    while (size := int(body.partition(b"\r\n")[0].partition(b";")[0], 16)) > 0:
        chunk = body.partition(b"\r\n")[2]
        yield chunk[:size]
        body = chunk[size + len(b"\r\n") :]


def _bytes(answer: _Answer, *, head: bool) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} X", f"content-length: {len(answer.body)}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if head else answer.body)


class FaultyS3:
    """The test's side of it."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.port, self.host = port, host

    @property
    def google(self) -> dict[str, str]:
        """The storage options of a client that speaks Google's protocol."""
        account = {"gcs_base_url": f"http://{self.host}:{self.port}", "disable_oauth": True}
        absent = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        return {
            "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account | absent),
            "GOOGLE_ALLOW_HTTP": "true",
        }

    def options(self, key: str = "key") -> dict[str, str]:
        """The storage options of a client with this access key."""
        return {
            "AWS_ENDPOINT_URL": f"http://{self.host}:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }

    def plan(self, plan: Plan) -> None:
        """From now on requests go wrong like this."""
        self._ask("PUT", PLAN, json.dumps(asdict(plan)))

    def hold(self, key: str = "", words: str = "") -> None:
        """From now on requests of the client with this access key whose words (the method, or LIST,
        and the key or the prefix) match this pattern wait; those that waited for another one don't.
        """
        self._ask("PUT", HOLD, json.dumps([key, words]))

    @property
    def holding(self) -> int:
        """How many requests wait."""
        return int(json.loads(self._ask("GET", HOLD, "")))

    @property
    def names(self) -> list[str]:
        """The keys of all objects."""
        return list(json.loads(self._ask("GET", NAMES, "")))

    def put(self, key: str, data: str) -> None:
        """Put an object by hand."""
        self._ask("PUT", f"/{BUCKET}/{key}", data)

    def counts(self) -> dict[str, int]:
        """How many requests were done, by method; `GET list` are lists."""
        return dict(json.loads(self._ask("GET", COUNTS, "")))

    def _ask(self, method: str, path: str, body: str) -> bytes:
        client = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            client.request(method, path, body)
            return client.getresponse().read()
        finally:
            client.close()


@contextmanager
def faulty_s3(host: str = "127.0.0.1", inside: tuple[str, ...] = ()) -> Iterator[FaultyS3]:
    """Runs it, with the bucket `lake`, in a process of its own; `inside` what comes in front of its
    command."""
    command = [*inside, sys.executable, __file__, host]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield FaultyS3(int(process.stdout.readline()), host)
    finally:
        process.kill()
        process.communicate()


async def _main(host: str = "127.0.0.1") -> None:
    server = _Server()
    listening = await asyncio.start_server(server.serve, host, 0, limit=32 << 20)
    print(listening.sockets[0].getsockname()[1], flush=True)  # noqa: T201
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
