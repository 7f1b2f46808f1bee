"""The owners of other logs, as a gateway sees them: their addresses, one connection to each, a
client's sessions on it, the attaches there. Start with `owner_connection.py`.
"""
