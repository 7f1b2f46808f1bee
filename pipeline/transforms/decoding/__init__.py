"""AMQP messages become columns: all messages of an Arrow batch at once, the odd ones one by one."""
