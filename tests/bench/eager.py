"""A gateway whose upkeep never rests, or never works: `-m tests.bench.eager FAN_IN serve ...`

FAN_IN is how many files become one: 2 merges after every second commit, a huge one never.
"""

import sys

from distributary.ingest.cli.main import main
from distributary.pipeline.tables.upkeep import recluster, table_upkeep, tiers

if __name__ == "__main__":
    fan_in = int(sys.argv.pop(1))
    tiers.FAN_IN = recluster.FAN_IN = fan_in  # type: ignore[misc]
    table_upkeep.CHECKPOINT_COMMITS = 10 * fan_in  # type: ignore[misc]
    sys.exit(main())
