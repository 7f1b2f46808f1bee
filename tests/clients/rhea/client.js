// What the tests write rhea with: connections that end with their test, promises instead of
// events, and an inbox for each receiver. Nothing of rhea is changed.

import { once } from "node:events";
import rhea from "rhea";

export const PORT = Number(process.env.GATEWAY_PORT);
export const PORT_WITH_USERS = Number(process.env.GATEWAY_WITH_USERS_PORT);
export const PORT_WITH_TLS = Number(process.env.GATEWAY_WITH_TLS_PORT);
export const CERTIFICATES = process.env.CERTIFICATES;

/** The context of the next event of that name. */
export const event = async (emitter, name) => (await once(emitter, name))[0];

/** A connection that is asked for but not open yet; it ends with the test. */
export function dial(t, options = {}) {
    const container = rhea.create_container();
    container.on("error", () => {}); // what a test doesn't wait for must not end the process
    container.on("disconnected", () => {});
    const connection = container.connect({
        host: "127.0.0.1",
        port: PORT,
        reconnect: false,
        ...options,
    });
    t.after(async () => {
        connection.set_reconnect(false);
        const there = connection.is_remote_open() && !connection.socket.destroyed;
        connection.close();
        if (there) await event(connection, "connection_close");
    });
    return connection;
}

export async function connect(t, options) {
    const connection = dial(t, options);
    await event(connection, "connection_open");
    return connection;
}

/** A sender that has credit. */
export async function sender(connection, options) {
    const made = connection.open_sender(options);
    await event(made, "sendable");
    return made;
}

/** Send, and wait for the outcome: accepted, rejected, released or modified, and its context. */
export async function send(to, message) {
    const delivery = to.send(message);
    return new Promise((resolve) => outcomes(to).set(delivery, resolve));
}

const asked = new WeakMap();

/** Who waits for the outcome of which delivery of this sender. */
function outcomes(to) {
    if (asked.has(to)) return asked.get(to);
    const waiting = new Map();
    asked.set(to, waiting);
    for (const outcome of ["accepted", "rejected", "released", "modified"]) {
        to.on(outcome, (context) => {
            waiting.get(context.delivery)?.({ outcome, ...context });
            waiting.delete(context.delivery);
        });
    }
    return waiting;
}

/** Send all of them at once, and wait until all are accepted. */
export async function publish(to, ...bodies) {
    const sent = bodies.map((body) => send(to, { body, durable: true }));
    for (const { outcome } of await Promise.all(sent)) {
        if (outcome !== "accepted") throw new Error(`a message was ${outcome}`);
    }
}

/** A receiver with what came to it. Without options said otherwise, rhea accepts by itself. */
export class Inbox {
    #waiting = [];
    #came = [];

    constructor(receiver) {
        this.receiver = receiver;
        receiver.on("message", (context) => {
            const waiting = this.#waiting.shift();
            if (waiting) waiting(context);
            else this.#came.push(context);
        });
    }

    /** The next message's context: `message`, `delivery`. */
    next() {
        const context = this.#came.shift();
        if (context) return Promise.resolve(context);
        return new Promise((resolve) => this.#waiting.push(resolve));
    }

    /** The bodies of the next messages. */
    async take(count) {
        const bodies = [];
        while (bodies.length < count) bodies.push((await this.next()).message.body);
        return bodies;
    }

    /** The bodies of what comes until the gateway says that there is no more: a drain. */
    async rest() {
        this.receiver.drain_credit();
        await event(this.receiver, "receiver_drained");
        this.receiver.drain = false;
        return this.#came.splice(0).map((context) => context.message.body);
    }
}

/** An inbox whose link is attached. */
export async function receive(connection, options) {
    const receiver = connection.open_receiver(options);
    const inbox = new Inbox(receiver);
    await event(receiver, "receiver_open");
    return inbox;
}

/** The error with which the gateway ends a link that was asked for. */
export async function refusal(link) {
    const kind = link.is_receiver() ? "receiver" : "sender";
    await event(link, `${kind}_error`);
    return link.error;
}

/** End a link, and wait for the gateway's answer. */
export async function leave(link, { closed }) {
    const kind = link.is_receiver() ? "receiver" : "sender";
    if (closed) link.close();
    else link.detach();
    await event(link, `${kind}_close`);
}

export const DURABLE = { durable: 2, expiry_policy: "never" };

/** The options of a durable subscription's receiver. */
export const durable = (name, address, options = {}) => ({
    name,
    source: { address, ...DURABLE },
    ...options,
});

/** The options of a receiver of a shared subscription; `words` are its capabilities. */
export const shared = (name, address, words, source = {}) => ({
    name,
    source: { address, capabilities: words, ...source },
});

/** Start, stop and kill a gateway of the test's own. */
export class Gateway {
    static async start(t) {
        const [number, port] = (await post("")).split(" ");
        const made = new Gateway(number, Number(port));
        t.after(() => made.end());
        return made;
    }

    constructor(number, port) {
        this.number = number;
        this.port = port;
    }

    restart = async () => {
        await this.stop();
        await this.up();
    };
    up = () => post(`/${this.number}/start`);
    stop = () => post(`/${this.number}/stop`);
    kill = () => post(`/${this.number}/kill`);
    end = () => post(`/${this.number}/end`);
}

async function post(path) {
    const url = `http://127.0.0.1:${process.env.CONTROL_PORT}/gateways${path}`;
    const answer = await fetch(url, { method: "POST" });
    const said = await answer.text();
    if (!answer.ok) throw new Error(said);
    return said;
}
