"""What AMQP 1.0 lets a peer say, and when: performatives, delivery states, dead-letter copies.

`endpoint_states` is the table from which the guard in C is generated. It may import `model` and
`codec`. Start with `performative`.
"""
