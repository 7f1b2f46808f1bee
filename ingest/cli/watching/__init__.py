"""A gateway at work, in the terminal.

May import: the standard library, click, rich, prometheus-client's reader; `cli/options`.
Begin with `top_command`.
"""
