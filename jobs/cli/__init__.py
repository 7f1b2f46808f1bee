"""The command line's part of the jobs: which gateway is asked, and the wheel for clusters.

Start with `wheel`.
"""
