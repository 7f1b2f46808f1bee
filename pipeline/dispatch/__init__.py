"""The dispatcher of one subscription: which consumer gets the next message.

A machine without I/O: commands are methods, effects are returned. It may import `model`,
`sequences` and `redelivery`. Start with `dispatcher`; `queue_state` says where each message is,
`candidates` what can be asked about it, `service_queue` in which order consumers are served.
"""
