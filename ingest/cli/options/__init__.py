"""What commands have in common: where the gateway is, who asks, exit codes, JSON.

May import: click; `jobs/cli` for the gateway's options. Begin with `command_options`.
"""
