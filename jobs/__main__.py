"""`python -m distributary.jobs NAME ...`, and what `spark-submit --py-files WHEEL` is given."""

import sys
from importlib import import_module

from distributary.jobs.session.job_names import JOBS, module


def main(argv: list[str]) -> int:
    """Run the job that the first argument names; returns the exit code."""
    if argv and argv[0] in JOBS:
        code: int = import_module(module(argv[0])).main(argv[1:])
        return code
    wanted = argv[0] if argv else "none"
    sys.stderr.write(f"Name a job first, not {wanted!r}; there are: {', '.join(JOBS)}.\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
