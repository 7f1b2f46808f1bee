"""The jobs that there are: each is a module of `jobs` with a `main(argv)`."""

from typing import Final

#: Job -> its work, in one line.
JOBS = {
    "materialize": "Turn the log into the tables that Spark writes.",
    "upkeep": "Keep these tables small: compaction, clean-up, retention.",
    "audit": "Prove the guarantees on the tables, or name what breaks them.",
    "register": "Put tables and views into a catalog, to stay; write dbt's sources.",
    "backfill": "Begin a subscription in the past.",
    "drain": "Put the messages that a subscription is owed into a Delta table, each once.",
    "prepare": "Make Spark's sessions on this machine begin in half of the time, once.",
    "wheel": "Make the one file that ships the jobs to a cluster.",
}
#: Job -> its module.
MODULES = {
    "materialize": "distributary.jobs.materialize.materialize",
    "upkeep": "distributary.jobs.upkeep.spark_upkeep",
    "audit": "distributary.jobs.views.audit_job",
    "register": "distributary.jobs.views.register_job",
    "backfill": "distributary.jobs.views.backfill",
    "drain": "distributary.jobs.subscription.drain",
    "prepare": "distributary.jobs.views.prepare_job",
    "wheel": "distributary.jobs.cli.wheel",
}


def module(name: str) -> str:
    """The module of the job `name`. Raises KeyError."""
    return MODULES[name]


#: Settings of every job's command line, as of `distributary`'s own.
HELP_OPTIONS: Final = {"help_option_names": ["-h", "--help"]}
