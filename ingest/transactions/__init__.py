"""Local transactions as peers ask for them: declared, worked in, discharged.

It may import `subscriptions` and what is below it. Start with `coordinator`.
"""
