"""Three gateways, three logs: a year of flights through gateways that don't own their log, and the
owner is killed half way. `make fleet` plays it, `python -m examples.fleet --help` tells more."""
