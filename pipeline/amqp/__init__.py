"""What AMQP 1.0 lets a peer say, and when: as literal tables, from which C is generated.

May import the standard library and the rest of the core. Start with `endpoint_states`.
"""
