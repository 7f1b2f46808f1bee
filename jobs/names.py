"""The jobs that there are: each is a module of this package with a `main(argv)`."""

#: Job -> what it does, in one line. Its module is `jobs.<name>`, `-` written as `_`.
JOBS = {
    "materialize": "Turn the log into the tables that Spark writes.",
    "upkeep": "Keep these tables small: compaction, clean-up, retention.",
    "audit": "Prove the guarantees on the tables, or name what breaks them.",
    "backfill": "Begin a subscription in the past.",
    "drain": "Put what a subscription is owed into a Delta table, each message once.",
    "wheel": "Make the one file that ships the jobs to a cluster.",
}


def module(name: str) -> str:
    """The module of the job `name`."""
    return f"jobs.{name.replace('-', '_')}"
