"""The demo: a year of flights through the gateway, by clients of it, over AMQP."""
