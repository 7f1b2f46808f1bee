// A shop publishes orders and ends when all of them are on the gateway's disk.
import rhea from "rhea";

const url = new URL(process.env.AMQP_URL ?? "amqp://127.0.0.1:5672");
const orders = Array.from({ length: 10 }, (_, index) => index + 1).map((number) => ({
    message_id: `order-${number}`,
    body: "pizza",
    durable: true,
    // Nobody can bill the seventh order.
    application_properties: { order: number, cents: number === 7 ? -1 : 1000 + number },
}));

// A shop that must not wait for a gateway fails at once; without this, rhea tries again for ever.
const connection = rhea.connect({ host: url.hostname, port: url.port, reconnect: false });
const sender = connection.open_sender("orders");
let sent = 0;
let confirmed = 0;

connection.on("sendable", () => {
    while (sent < orders.length && sender.sendable()) {
        sender.send(orders[sent++]);
    }
});
connection.on("accepted", () => {
    confirmed += 1;
    if (confirmed === orders.length) {
        console.log(`published ${confirmed} orders`);
        connection.close();
    }
});
connection.on("rejected", ({ delivery }) => fail(delivery.remote_state.error));
connection.on("sender_error", () => fail(sender.error));
connection.on("disconnected", ({ error }) => error && fail(error));

function fail(error) {
    console.error(`${confirmed} orders are published, then: ${error.description ?? error}`);
    process.exitCode = 1;
    connection.close();
}
