"""AMQP 1.0's frames and the states that allow them: performatives, delivery states; dead letters.

`endpoint_states` is the table from which the guard in C is generated. It may import `model` and
`codec`. Start with `performative`.
"""
