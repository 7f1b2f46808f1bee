"""How Spark is set where it has ten rows to work on."""

FAST = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Delta would keep all names of files beside each version, and look for the first by a job.
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    # Compiling Java for ten rows takes longer than to interpret it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Each query is described for a UI that isn't there; and each rule's plan is checked.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.lightweightPlanChangeValidation": "false",
}
