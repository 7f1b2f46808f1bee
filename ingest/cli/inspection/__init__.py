"""A home and a machine, looked at from outside: verify, info, doctor, upgrade.

May import: the standard library, click, rich; `cli/options`, `runtime`, `security`, `commit`,
`gateway`, `checkup`. Begin with `inspect_commands`.
"""
