"""The rows of a home's log, read beside a gateway that writes it: snapshots, bounded reading,
messages, settlements, the lives of subscriptions.

It may import the rooms of `pipeline` but for `transforms`. It reads alone. Start with `log_reader`.
"""
