"""Changes of a lake's placement of topics, by a person, while no gateway serves the lake.

It may import `runtime`, `commit` and `gateway`. Start with `topic_placing`.
"""
