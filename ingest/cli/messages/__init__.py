"""Messages from the shell: published, consumed, looked at.

May import: the standard library, click, rich, the Python client; `cli/options`. Begin with
`message_commands`.
"""
