"""What everything else speaks of: messages in batches, destinations, subscriptions, policies,
outcomes.

Frozen values without I/O. It may import `sequences` and `codec`. Start with `message`;
`transitions` is the table of a delivery's life.
"""
