"""Looks at a machine and a home, and disturbs nothing that runs there.

May import: `runtime`. Begin with `machine_look`.
"""
