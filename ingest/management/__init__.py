"""The node `$management`: requests by messages, answered by messages.

It may import `transactions` and what is below it. Start with `node`, then `requests`.
"""
