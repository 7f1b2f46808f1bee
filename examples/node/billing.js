// Billing takes the orders of the shared durable subscription `billing`, until Ctrl-C or SIGTERM.
import { setImmediate as turn } from "node:timers/promises";
import rhea from "rhea";

const url = new URL(process.env.AMQP_URL ?? "amqp://127.0.0.1:5672");
// rhea connects again and attaches its links again by itself.
const connection = rhea.connect({ host: url.hostname, port: url.port });
const receiver = connection.open_receiver({
    name: "billing|global",
    source: {
        address: "orders",
        durable: 2,
        expiry_policy: "never",
        capabilities: ["topic", "shared", "global"],
    },
    credit_window: 10, // so many orders may be in hand at once
    autoaccept: false,
});
const inHand = new Set();
let told = Promise.resolve();
let stopping = false;

connection.on("message", ({ message, delivery }) => {
    if (stopping) {
        return; // nobody has seen it: it goes to others when the connection ends
    }
    const work = settle(message.application_properties, delivery);
    inHand.add(work);
    work.finally(() => inHand.delete(work));
});
connection.on("disconnected", ({ reconnecting }) => {
    if (reconnecting) {
        console.error("the gateway is away, trying again");
    }
});
connection.on("receiver_error", () => stop(receiver.error));
connection.on("connection_error", ({ error }) => {
    if (error.condition !== "amqp:connection:forced") { // that is a gateway being stopped
        stop(error);
    }
});
process.once("SIGINT", () => stop());
process.once("SIGTERM", () => stop());

async function settle(order, delivery) {
    try {
        await bill(order);
    } catch (error) {
        console.log(`rejected order ${order.order}: ${error.message}`);
        const reason = { condition: "shop:cannot-bill", description: error.message };
        return tell(() => delivery.reject(reason)); // a dead letter
    }
    return tell(() => delivery.accept());
}

// One outcome in each turn: of two in one turn rhea 3.0.5 gives the second message the first one's
// outcome, so good orders behind a bad one would be rejected with it.
function tell(outcome) {
    told = told.then(outcome).then(() => turn());
    return told;
}

async function bill({ order, cents }) {
    if (cents < 0) {
        throw new RangeError(`${cents} cents`);
    }
    console.log(`billed order ${order}: ${cents} cents`);
}

async function stop(error) {
    stopping = true;
    if (error) {
        console.error(error.description ?? error);
        process.exitCode = 1;
    }
    await Promise.all(inHand);
    connection.set_reconnect(false);
    connection.close(); // the subscription stays; receiver.close() would end it
}
