"""Where the topics of a lake are placed, changed by a person while no gateway serves it.

It may import `runtime`, `commit` and `gateway`. Start with `topic_placing`.
"""
