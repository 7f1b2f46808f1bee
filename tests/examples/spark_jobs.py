"""The Spark examples one after another in one session: `python spark_jobs.py HOME FOLDER`.

Each runs as the program that it is; between them the tables are made.
"""

import runpy
import sys
from pathlib import Path

from distributary.jobs.materialize import materialize

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "spark"


def run(example: str, argument: str) -> None:
    sys.argv = [example, argument]
    runpy.run_path(str(EXAMPLES / example), run_name="__main__")


def main(home: str, folder: str) -> None:
    run("billing.py", folder)
    assert materialize.main(["--home", home]) == 0
    run("report.py", home)


if __name__ == "__main__":
    main(*sys.argv[1:])
