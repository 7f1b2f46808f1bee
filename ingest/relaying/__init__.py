"""Links of clients whose topics lie in the logs of other gateways: passed on to those.

`relays` is what the message loop asks; `owners/owner_connection` has the one connection to the
owner of a log, `owners/relayed_session` a session on it for each session of a client, `owner_link`
what relayed links have in common, `relayed_producer` and `relayed_consumer` the two directions,
`transactions` what of them is in transactions, `owner_requests` what is asked of another node
`$management`. Loaded where the home is a lake. It imports the client's engine (`client.connection`)
and nothing of the message loop, so that a gateway without a log of its own can have it, too.
"""
