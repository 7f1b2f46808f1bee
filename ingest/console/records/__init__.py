"""The life of each message, from a home's tables; pages of messages, positions of subscriptions,
audits.

It may import `log_rows` and the rooms of `pipeline` but for `transforms`: no Spark, no socket, no
template. A request reads one snapshot, a bounded part of it, and what the `Sight` of its user
covers; results of functions are frozen, and name the group as of which they are true, and the
place where reading stopped. Functions block: the console calls them on threads. Start with
`home_records`, then `message_life`.
"""
