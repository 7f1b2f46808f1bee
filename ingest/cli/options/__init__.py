"""Common options of commands: the gateway, the user, exit codes, JSON.

May import: click; `jobs/cli` for the gateway's options. Begin with `command_options`.
"""
