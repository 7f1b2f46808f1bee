"""The node `$management`: requests by messages, answered by messages."""
