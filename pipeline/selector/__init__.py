"""Selectors: which messages a subscription claims, in the language of JMS."""
