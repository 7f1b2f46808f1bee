"""One JVM with one Spark for all processes of a test run: the workers of pytest, and those
commands, notebooks and scripts that they start and that need none of their own.

A JVM takes 15 s of a processor until it has loaded Spark and compiled what it does all the time.
The lender is a process that has a Spark. Each borrower has a session of its own in it (settings,
views, active session; the catalog is shared), and a server of py4j of its own, so that calls back
to Python find the right process. The lender ends with the last process that has a `Lender`.

A test that kills, counts or measures a JVM, or reads its output, starts one of its own.
"""

import fcntl
import json
import os
import runpy
import selectors
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import class_archive
from spark_settings import FAST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The folder where the run's lender listens. Without it there is none.
PLACE = "DISTRIBUTARY_TESTS_LENDER"
#: What a child may borrow: the port and the secret of its server of py4j.
LENT = "DISTRIBUTARY_TESTS_SPARK"
#: It works for all workers at once.
HEAP = {"spark.driver.memory": "5g"}
YOUNG = "-XX:NewSize=1g"
CLOSURES = Path(__file__).with_name("ClosuresOnce.java")
#: Where it is said, Spark doesn't look for the line of the program that made an RDD, each time.
CALL_SITE = ("callSite.short", "callSite.long")
#: What is asked of the lender.
_SESSION, _CONNECT = b"s", b"c"
#: Seconds for an answer; the first one waits for the start.
SECONDS_MAX = 600


class Lender:
    """A connection to the lender of this run, which is started when there is none."""

    def __init__(self, place: Path) -> None:
        address = place / "socket"
        with (place / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                self._socket = _connected(address)
            except OSError:
                address.unlink(missing_ok=True)
                _start(address)
                self._socket = _connected(address)
        self._answers = self._socket.makefile("r")

    def lend(self) -> str:
        """The value of LENT for one more process."""
        return self._ask(_SESSION)

    def connect_url(self) -> str:
        """The URL of the run's server of Spark Connect, which is started when there is none."""
        return self._ask(_CONNECT)

    def _ask(self, what: bytes) -> str:
        self._socket.sendall(what)
        return self._answers.readline().strip()


@cache
def lender() -> Lender:
    """The lender, for the rest of this process's life."""
    return Lender(Path(os.environ[PLACE]))


def lent(command: list[str], environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """A command that begins with a script in Python, and its environment, so that it borrows its
    session; both unchanged where there is no lender."""
    if PLACE not in os.environ:
        return command, dict(environment)
    return [sys.executable, __file__, *command], {**environment, LENT: lender().lend()}


def borrow(given: str) -> "SparkSession":
    """A session of this process in the JVM that was lent; its `stop` leaves that JVM alone."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 (a second)
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from distributary.jobs.session.session import know_names  # noqa: PLC0415

    port, secret = json.loads(given)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    SparkContext._ensure_initialized()
    del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    jvm = SparkContext._jvm
    running = jvm.org.apache.spark.SparkContext.getOrCreate()
    context = SparkContext(
        conf=SparkConf(_jconf=running.conf()),
        gateway=SparkContext._gateway,
        jsc=jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(running),
    )
    first = jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get()
    made = SparkSession(context, first.newSession())
    made.stop = lambda: None
    know_names()
    for name in CALL_SITE:
        context.setLocalProperty(name, "tests")
    return made


def _connected(address: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(SECONDS_MAX)
    try:
        made.connect(str(address))
    except OSError:
        made.close()
        raise
    return made


def _start(address: Path) -> None:
    """Start it, and wait until it listens."""
    with address.with_name("log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, str(address)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for the tests
        )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline(), address.with_name("log").read_text()
    process.returncode = 0  # this process doesn't wait for it: it ends later


def _serve(address: Path) -> None:
    """Lend until the last borrower has gone."""
    import spark_connect  # noqa: PLC0415 (this process's, as what follows)

    from distributary.jobs.session.session import session  # noqa: PLC0415

    warehouse = {"spark.sql.warehouse.dir": str(address.with_name("warehouse"))}
    spark = session({**FAST, **HEAP, **warehouse})
    serialize_closures_once(spark)
    url = ""
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as ready:
        listener.bind(str(address))
        listener.listen()
        ready.register(listener, selectors.EVENT_READ)
        os.write(1, b"listens\n")
        os.close(1)
        while True:
            for key, _ in ready.select():
                borrower = key.fileobj
                assert isinstance(borrower, socket.socket)
                if borrower is listener:
                    ready.register(listener.accept()[0], selectors.EVENT_READ)
                elif asked := borrower.recv(1):
                    if asked == _CONNECT:
                        url = said = url or spark_connect.started(spark)
                    else:
                        said = _another(spark)
                    borrower.sendall(f"{said}\n".encode())
                else:
                    ready.unregister(borrower)
                    borrower.close()
                    if len(ready.get_map()) == 1:
                        return


def serialize_closures_once(spark: "SparkSession") -> None:
    """Spark makes bytes of each function of a job twice, the first time to look whether it can: a
    seventh of what the JVM does for a query of ours."""
    jvm: Any = spark._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(CLOSURES.read_text())
    made = compiler.getClassLoader().loadClass(f"distributary.{CLOSURES.stem}")
    environment = jvm.org.apache.spark.SparkEnv.get()
    arguments = jvm.java.util.List.of(environment.conf()).toArray()
    serializer = made.getConstructors()[0].newInstance(arguments)
    field = environment.getClass().getDeclaredField("closureSerializer")
    field.setAccessible(True)
    field.set(environment, serializer)


def _another(spark: "SparkSession") -> str:
    """The value of LENT for a new server of py4j."""
    server = spark._jvm.org.apache.spark.api.python.Py4JServer(spark._jsc.sc().conf())
    server.start()
    return json.dumps([server.getListeningPort(), server.secret()])


def _main(words: list[str]) -> None:
    """`spark_lender.py ADDRESS` lends. With LENT, `spark_lender.py [python] SCRIPT ...` and
    `... [python] -m MODULE ...` run that with a borrowed session."""
    if LENT not in os.environ:
        class_archive.use()
        os.environ[class_archive.VARIABLE] += f" {YOUNG}"
        _serve(Path(words[0]))
        return
    del sys.path[0]  # this folder, which is none of theirs
    borrow(os.environ.pop(LENT))
    if words[0] == sys.executable:
        words = words[1:]
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path.insert(0, str(Path(words[0]).resolve().parent))
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    _main(sys.argv[1:])
