"""What `$management` is asked and answers, as values.

It may import `model` and `codec`. Start with `management_messages`.
"""
