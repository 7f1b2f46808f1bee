"""The owners of other logs, to a gateway: where they are, one connection to each, a client's
sessions on it, what an attach says there. Start with `owner_connection.py`.
"""
