"""Links of clients whose topics lie in the logs of other gateways: passed on to their owners.

`relays` is the message loop's entry; `owners/owner_connection` has the one connection to the owner
of a log, `owners/relayed_session` a session on it for each session of a client, `owner_link` the
rules of all relayed links, `relayed_producer` and `relayed_consumer` the two directions,
`transactions` their work in transactions, `owner_requests` requests to the owner's node
`$management`. Loaded where the home is a lake. It imports the client's engine (`client.connection`)
and nothing of the message loop, so that a gateway without a log of its own can have it, too.
"""
