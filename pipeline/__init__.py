"""The domain: what a message, a subscription and a delivery are, and the rules they follow.

Every room in here may import the standard library and the rooms that stand before it in
`docs/architecture.md`. But for `tables` and `transforms` they are pure: no clock, thread, socket,
file or log; commands in, effects out, time an argument. `errors` belongs to all rooms. Start with
`dispatch`.
"""
