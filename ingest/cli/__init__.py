"""The command line: `distributary serve`, `verify`, `info`, `user`, `subscription`, `queue`,
`topic`, `jobs`.

Commands over a running gateway are clients of `$management`. Start with `main`.
"""
