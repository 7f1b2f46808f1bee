"""`distributary.client`: publish and subscribe from Python, with asyncio, at any AMQP 1.0 broker.

    from distributary.client import connect

    async with connect("amqp://127.0.0.1:5672") as client:
        await client.publish("orders", "one pizza")
        async for message in client.subscribe("billing", topic="orders"):
            print(message.text)
            await message.accept()

May import: `pipeline`, `ingest/native` (Proton's engine and the pump), `connection`; never the
gateway, tables or Spark. Begin with `client`.
"""

from distributary.client.client import Client, connect
from distributary.client.client_publisher import Publisher
from distributary.client.client_subscription import Subscription
from distributary.client.client_transaction import Transaction
from distributary.client.connection.client_errors import (
    ClientClosed,
    ClientError,
    ConnectionFailed,
    LoginRefused,
    NotAccepted,
    Refused,
    RolledBack,
)
from distributary.client.outgoing_message import Encoded, Message
from distributary.client.received_message import ReceivedMessage
from distributary.pipeline.codec.sections import Typed
from distributary.pipeline.errors import InvalidRequest

__all__ = [
    "Client",
    "ClientClosed",
    "ClientError",
    "ConnectionFailed",
    "Encoded",
    "InvalidRequest",
    "LoginRefused",
    "Message",
    "NotAccepted",
    "Publisher",
    "ReceivedMessage",
    "Refused",
    "RolledBack",
    "Subscription",
    "Transaction",
    "Typed",
    "connect",
]
