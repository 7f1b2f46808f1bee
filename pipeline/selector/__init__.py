"""Selectors, which choose the messages of a subscription, in the language of JMS.

It may import `model` and `codec`. Start with `syntax`, then `parser`; `matching` selects
messages of a batch.
"""
