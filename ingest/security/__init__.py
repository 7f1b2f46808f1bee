"""Security: logins, certificates, users and permissions, from files.

It may import `runtime`. Start with `access`.
"""
