"""A gateway as a member of its lake: its reports of itself, and moves of logs.

It imports `runtime` and `gateway/ownership`; the rules are those of `pipeline.fleet`. Start with
`membership`. Loaded where the home is a lake.
"""
