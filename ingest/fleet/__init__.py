"""A gateway among those of its lake: what it says of itself, what it does when a log is to move.

It imports `runtime` and `gateway/ownership`; the rules are those of `pipeline.fleet`. Start with
`membership`. Loaded where the home is a lake.
"""
