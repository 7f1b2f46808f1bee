"""Selectors: which messages a subscription selects, in the language of JMS.

It may import `model` and `codec`. Start with `syntax`, then `parser`; `matching` decides over a
batch.
"""
