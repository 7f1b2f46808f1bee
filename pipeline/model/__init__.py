"""The model that all other packages use: messages in batches, destinations, subscriptions,
policies, outcomes.

Frozen values without I/O. The package may import `sequences` and `codec`. Start with `message`;
`transitions` is the table of a delivery's life.
"""
