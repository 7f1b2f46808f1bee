"""Which files of tests need Spark's session, and how they come to one worker.

A JVM costs ten seconds of a processor before its first job, and as much again until it has compiled
what it does often. Of four workers each would have one: so one worker runs all of these files.
"""

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling

#: How a file says that a test or a fixture of it takes the session, or a place that has it.
_TAKES = re.compile(r"\bspark: |\bplace: Place\b|usefixtures\(\"(?:spark|place)\"\)")


@cache
def needs_session(file: Path) -> bool:
    """Whether any of its tests does, by its text: who deals out the files imports none of them."""
    return bool(_TAKES.search(file.read_text()))


class OneJvm(LoadFileScheduling):
    """As `--dist loadfile`, a file to a worker; but those that need the session are as one file.

    xdist's own groups don't work with pytest 9.2: it writes them into an attribute that is gone.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "spark" if needs_session(self.config.rootpath / file) else file
