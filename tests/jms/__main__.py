"""The Qpid JMS client's tests alone: `python -m tests.jms`, which `make jms` does."""

import os
import sys
import tempfile
from pathlib import Path

from rich.console import Console

sys.path.append(str(Path(__file__).parent))

from jms_suite import SuiteFailed, Verdict, named, run, summary
from maven_jars import JarsMissing, jdk_missing


def main() -> int:
    """The exit code: 0 unless a test failed, or the suite couldn't run where it must."""
    say = Console(markup=False, highlight=False, soft_wrap=True).print
    missing = jdk_missing()
    if missing:
        say(missing)
        say(f"0 passed, 0 failed, {len(named())} skipped")
        return int(os.environ.get("CI") == "true")
    try:
        with tempfile.TemporaryDirectory(prefix="distributary-jms-") as folder:
            results = run(Path(folder))
    except (SuiteFailed, JarsMissing) as error:
        say(error)
        return 1
    for result in results:
        line = f"{result.verdict:8}{result.name}"
        say(f"{line}: {result.reason}" if result.reason else line)
    say(summary(results))
    return int(any(result.verdict is Verdict.FAILED for result in results))


if __name__ == "__main__":
    sys.exit(main())
