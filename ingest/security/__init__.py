"""Who may connect, and what he may do: logins, certificates, users, permissions from files."""
