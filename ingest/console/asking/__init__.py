"""The console's questions to a gateway: a line of each user to `$management`, one poller of
metrics for all browsers, sweeps over all subscriptions.

May import: `jobs/client`, the reader of metrics in `cli/watching`, `pipeline`, `insight`, settings.
"""
