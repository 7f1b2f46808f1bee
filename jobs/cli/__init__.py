"""The command line's part of the jobs: options for the gateway, and the wheel for clusters.

Start with `wheel`.
"""
