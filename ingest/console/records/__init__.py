"""What became of each message, from a home's tables: lives of messages, pages of them, where
subscriptions stand, audits.

It may import `log_rows` and the rooms of `pipeline` but for `transforms`: no Spark, no socket, no
template. A request reads one snapshot, a bounded part of it, and what the `Sight` of its user
covers; what a function gives back is frozen and says as of which group it is true, and where it
stopped. Functions block: the console calls them on threads. Start with `home_records`, then
`message_life`.
"""
