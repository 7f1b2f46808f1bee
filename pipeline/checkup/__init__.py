"""What facts of a machine and of a home mean for a gateway: one sentence each, and how bad it is.

It may import nothing of the other rooms. Start with `findings`.
"""
