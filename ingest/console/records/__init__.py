"""What became of each message, read from a home's tables beside a gateway that writes them.

It may import the rooms of `pipeline` but for `transforms`: no Spark, no socket, no template. All of
it reads, nothing writes (but `audits`, which keeps reports). A request reads one snapshot, a
bounded part of it, and what the `Sight` of its user covers; what a function gives back is frozen
and says as of which group it is true, and where it stopped. Functions block: the console calls them
on threads of its own. Start with `message_life`.
"""
