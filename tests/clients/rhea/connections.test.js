// Logging in, errors, and a connection that comes back, as rhea has them.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
    CERTIFICATES,
    connect,
    dial,
    durable,
    event,
    Gateway,
    PORT_WITH_TLS,
    PORT_WITH_USERS,
    publish,
    receive,
    refusal,
    send,
    sender,
} from "./client.js";

test("rhea connects without SASL, and as ANONYMOUS", async (t) => {
    const bare = await connect(t); // without a user rhea leaves SASL out
    const named = await connect(t, { username: "ann" });
    for (const [index, connection] of [bare, named].entries()) {
        const topic = `rhea-login-${index}`;
        const inbox = await receive(connection, topic);
        await publish(await sender(connection, topic), "a");
        assert.deepEqual(await inbox.take(1), ["a"]);
    }
});

test("the gateway says who it is and what it can do", async (t) => {
    const connection = await connect(t);
    assert.equal(connection.container_id, "distributary");
    for (const word of ["ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS"]) {
        assert.ok(connection.offered_capabilities.includes(word), word);
    }
});

test("PLAIN: the right password opens", async (t) => {
    const options = { port: PORT_WITH_USERS, username: "ann", password: "secret" };
    const connection = await connect(t, options);
    const inbox = await receive(connection, "rhea-plain-login");
    await publish(await sender(connection, "rhea-plain-login"), "a");
    assert.deepEqual(await inbox.take(1), ["a"]);
});

test("PLAIN: a wrong password, no password and no SASL don't", async (t) => {
    for (const user of [{ username: "ann", password: "guess" }, { username: "ann" }]) {
        const connection = dial(t, { port: PORT_WITH_USERS, ...user });
        const { error } = await event(connection, "connection_error");
        assert.equal(error.condition, "amqp:unauthorized-access");
    }
    const bare = dial(t, { port: PORT_WITH_USERS });
    await Promise.race([event(bare, "disconnected"), event(bare, "protocol_error")]);
    assert.ok(!bare.is_remote_open());
});

test("a user may do what permissions say, and hears it otherwise", async (t) => {
    const login = { port: PORT_WITH_USERS, username: "bob", password: "builder" };
    const bob = await connect(t, login);
    const inbox = await receive(bob, "rhea-allowed");
    const error = await refusal(bob.open_sender("rhea-allowed"));
    assert.equal(error.condition, "amqp:unauthorized-access");
    const relay = await sender(bob, { target: {} });
    const { outcome, delivery } = await send(relay, { to: "rhea-allowed", durable: true });
    assert.equal(outcome, "rejected");
    assert.equal(delivery.remote_state.error.condition, "amqp:unauthorized-access");
    const ann = await connect(t, { ...login, username: "ann", password: "secret" });
    await publish(await sender(ann, "rhea-allowed"), "a");
    assert.deepEqual(await inbox.take(1), ["a"]);
});

const file = (name) => readFileSync(`${CERTIFICATES}/${name}`);

test("TLS, and a certificate for a login", async (t) => {
    const tls = { port: PORT_WITH_TLS, transport: "tls", servername: "localhost" };
    const trusting = { ...tls, ca: [file("authority.pem")] };
    const own = { cert: file("ann.pem"), key: file("ann.key"), enable_sasl_external: true };
    const connection = await connect(t, { ...trusting, ...own });
    const inbox = await receive(connection, "rhea-tls");
    await publish(await sender(connection, "rhea-tls"), "a".repeat(200_000));
    assert.equal((await inbox.take(1))[0].length, 200_000);
    for (const wrong of [tls, trusting, { ...tls, ...own }]) {
        const other = dial(t, wrong);
        await event(other, "disconnected");
        assert.ok(!other.is_remote_open());
    }
});

test("a container id that is wanted alone is refused while it is in use, and its owner goes on", async (t) => {
    const owner = await connect(t, { container_id: "rhea-owner" });
    const inbox = await receive(owner, "rhea-owner");
    const desired_capabilities = ["sole-connection-for-container"];
    const second = dial(t, { container_id: "rhea-owner", desired_capabilities });
    const { error } = await event(second, "connection_error");
    assert.equal(error.condition, "amqp:invalid-field");
    await publish(await sender(owner, "rhea-owner"), "a");
    assert.deepEqual(await inbox.take(1), ["a"]);
});

test("what can't be had is refused on its link alone, with a reason", async (t) => {
    const connection = await connect(t);
    const refused = [
        [connection.open_sender("$catalog"), "amqp:not-found"],
        [connection.open_receiver("$catalog"), "amqp:not-found"],
        [connection.open_receiver({ source: {} }), "amqp:not-found"],
        [connection.open_sender({ target: null }), "amqp:invalid-field"],
        [connection.open_sender("x".repeat(300)), "amqp:invalid-field"],
    ];
    const errors = await Promise.all(refused.map(([link]) => refusal(link)));
    for (const [index, error] of errors.entries()) {
        assert.equal(error.condition, refused[index][1]);
        assert.ok(error.description.length > 10);
    }
    const inbox = await receive(connection, "rhea-still-here");
    await publish(await sender(connection, "rhea-still-here"), "a");
    assert.deepEqual(await inbox.take(1), ["a"]);
});

test("a connection with heartbeats stays open while nothing is said", async (t) => {
    const connection = await connect(t, { idle_time_out: 2_000 });
    let lost = false;
    connection.on("disconnected", () => (lost = true));
    await new Promise((resolve) => setTimeout(resolve, 6_000));
    assert.ok(!lost && connection.is_remote_open());
});

// rhea attaches its links again by itself; what had no outcome yet is the application's to send
// again, as with any client.

/** Numbers published in order, each again until it is accepted, over whatever happens. */
function insist(to, numbers) {
    let sent = 0;
    let accepted = 0;
    return new Promise((resolve) => {
        const fill = () => {
            const ahead = Math.min(numbers.length, accepted + 20);
            while (to.sendable() && sent < ahead) to.send({ body: numbers[sent++], durable: true });
        };
        to.on("sendable", fill);
        to.on("accepted", () => (++accepted === numbers.length ? resolve() : fill()));
        to.connection.on("disconnected", () => (sent = accepted));
        fill();
    });
}

/** Everything that a durable consumer sees while the gateway goes and comes back. */
async function overEnds(t, ends) {
    const gateway = await Gateway.start(t);
    const dialled = { port: gateway.port, reconnect: 50 };
    const consumer = await connect(t, { ...dialled, container_id: "rhea-consumer" });
    const producer = await connect(t, dialled);
    const inbox = await receive(consumer, durable("stays", "rhea-reconnect"));
    const to = await sender(producer, "rhea-reconnect");
    const numbers = Array.from({ length: 1_000 }, (_, i) => i);
    const done = insist(to, numbers);
    const seen = new Set();
    let again = 0;
    let last = -1;
    for (let ended = false; seen.size < numbers.length; ) {
        const { message } = await inbox.next();
        if (seen.has(message.body)) again++;
        else assert.equal(message.body, ++last, "in order");
        seen.add(message.body);
        if (seen.size === 300 && !ended) {
            ended = true;
            ends(gateway).then(() => {});
        }
    }
    await done;
    return again;
}

test("over a stop and a start nothing is lost, and what is new comes in order", async (t) => {
    await overEnds(t, async (gateway) => {
        await gateway.stop();
        await gateway.up();
    });
});

test("over a kill and a start nothing is lost, and what is new comes in order", async (t) => {
    await overEnds(t, async (gateway) => {
        await gateway.kill();
        await gateway.up();
    });
});
