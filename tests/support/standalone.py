"""A Spark standalone cluster on this machine: a master and a worker, each a process of its own, and
on each core of the worker an executor, another one."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import class_archive
import pyspark

SPARK = Path(pyspark.__file__).parent
#: Seconds until a process has said that it is there; two on an idle machine.
START_SECONDS_MAX = 120
#: Seconds that a job may take; twenty on an idle machine.
JOB_SECONDS_MAX = 900


@dataclass
class Standalone:
    """Processes log into `folder`; `python` runs drivers and executors' workers."""

    folder: Path
    python: Path
    processes: "list[subprocess.Popen[bytes]]" = field(default_factory=list)
    master: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """Variables that lead to no checkout, and name the interpreters."""
        names = ("PATH", "HOME", "JAVA_HOME", "LANG", "TMPDIR", "SPARK_SUBMIT_OPTS")
        return {name: os.environ[name] for name in names if name in os.environ} | {
            "SPARK_HOME": str(SPARK),
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": str(self.python),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": class_archive.options(),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_OPTS": "-Dspark.worker.ui.port=0",
        }

    def start(self, cores: int) -> None:
        said = self._daemon(
            "master",
            "org.apache.spark.deploy.master.Master",
            *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
            until=rb"Starting Spark master at (spark://[0-9.:]+)",
        )
        self.master = said.decode()
        self._daemon(
            "worker",
            "org.apache.spark.deploy.worker.Worker",
            *("--host", "127.0.0.1", "--webui-port", "0", "--cores", str(cores)),
            *("--memory", f"{cores}g", "--work-dir", str(self.folder / "work"), self.master),
            until=rb"(Successfully registered with master)",
        )

    def submit(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """`spark-submit` to this cluster, from a folder that has nothing to do with the code."""
        return subprocess.run(
            [SPARK / "bin" / "spark-submit", "--master", self.master, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=JOB_SECONDS_MAX,
            check=False,
        )

    def stop(self) -> None:
        """End all processes, with what they have started."""
        for process in reversed(self.processes):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _daemon(self, name: str, main: str, *arguments: str, until: bytes) -> bytes:
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [SPARK / "bin" / "spark-class", main, *arguments],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        give_up = time.monotonic() + START_SECONDS_MAX
        while (found := re.search(until, log.read_bytes())) is None:
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < give_up, f"{name} didn't start"
            time.sleep(0.1)
        return found.group(1)


@contextmanager
def standalone(folder: Path, python: Path, *, cores: int = 2) -> Iterator[Standalone]:
    """A cluster while the block runs."""
    cluster = Standalone(folder, python)
    try:
        cluster.start(cores)
        yield cluster
    finally:
        cluster.stop()
