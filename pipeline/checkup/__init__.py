"""Judgement of facts about a machine and a home: one sentence each, with a severity.

It may import nothing of the other rooms. Start with `findings`.
"""
