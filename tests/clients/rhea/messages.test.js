// Messages as rhea sends and receives them.

import assert from "node:assert/strict";
import { test } from "node:test";
import rhea from "rhea";
import { connect, event, Inbox, publish, receive, refusal, send, sender } from "./client.js";

test("a message comes as it was sent, with all its fields", async (t) => {
    const connection = await connect(t);
    const inbox = await receive(connection, "rhea-sections");
    const to = await sender(connection, "rhea-sections");
    const sent = {
        durable: true,
        priority: 7,
        message_id: "m-1",
        user_id: Buffer.from("ann"),
        to: "somewhere",
        subject: "a subject",
        reply_to: "answers",
        correlation_id: "c-1",
        content_type: "text/plain",
        content_encoding: "identity",
        creation_time: new Date(1_700_000_000_000),
        group_id: "g",
        group_sequence: 3,
        reply_to_group_id: "h",
        application_properties: { text: "x", number: 7, truth: true, nothing: null },
        message_annotations: { "x-opt-mine": "kept" },
        body: "hello",
    };
    assert.equal((await send(to, sent)).outcome, "accepted");
    const { message } = await inbox.next();
    for (const [name, value] of Object.entries(sent)) assert.deepEqual(message[name], value, name);
});

// rhea 3.0.5 writes a footer in front of the body, where no footer may stand.
test("a message with rhea's misplaced footer is rejected, not kept broken", async (t) => {
    const connection = await connect(t);
    const to = await sender(connection, "rhea-footer");
    const { outcome, delivery } = await send(to, { body: "x", footer: { "x-sum": 42 } });
    assert.equal(outcome, "rejected");
    assert.equal(delivery.remote_state.error.condition, "amqp:decode-error");
});

const BODIES = {
    "a string": "text",
    "a long string": "x".repeat(70_000),
    "a number": 1234567,
    "a fraction": 1.25,
    "a negative": -5,
    "a truth": true,
    "nothing": null,
    "a list": [1, "two", [3]],
    "a map": { one: 1, two: { three: "3" } },
    "a binary value": Buffer.from([0, 255, 1]),
    "a data section": rhea.message.data_section(Buffer.from("bytes")),
    "two data sections": rhea.message.data_sections([Buffer.from("one"), Buffer.from("two")]),
    "a sequence": rhea.message.sequence_section([1, "two"]),
};

test("a body of every kind comes as it was sent", async (t) => {
    const connection = await connect(t);
    const inbox = await receive(connection, "rhea-bodies");
    const to = await sender(connection, "rhea-bodies");
    for (const [kind, body] of Object.entries(BODIES)) {
        await publish(to, body);
        const [came] = await inbox.take(1);
        assert.deepEqual(came, body, kind);
    }
});

test("messages up to ten million bytes come whole", async (t) => {
    const connection = await connect(t);
    const inbox = await receive(connection, "rhea-large");
    const to = await sender(connection, "rhea-large");
    for (const size of [100_000, 1_000_000, 10_000_000]) {
        const body = Buffer.alloc(size, "0123456789");
        await publish(to, rhea.message.data_section(body));
        const [came] = await inbox.take(1);
        assert.ok(came.content.equals(body), `${size}`);
    }
});

test("a message that is too large ends its sender, and no other link", async (t) => {
    const connection = await connect(t);
    const inbox = await receive(connection, "rhea-too-large");
    const other = await sender(connection, "rhea-too-large");
    const to = await sender(connection, "rhea-too-large");
    assert.equal(to.max_message_size, 16_777_216);
    to.send({ body: Buffer.alloc(17_000_000) });
    assert.equal((await refusal(to)).condition, "amqp:link:message-size-exceeded");
    await publish(other, "small");
    assert.deepEqual(await inbox.take(1), ["small"]);
});

test("ten thousand messages come in order", async (t) => {
    const connection = await connect(t);
    const inbox = await receive(connection, { source: "rhea-many", credit_window: 500 });
    const to = await sender(connection, "rhea-many");
    const numbers = Array.from({ length: 10_000 }, (_, i) => i);
    let next = 0;
    const fill = () => {
        while (to.sendable() && next < numbers.length) to.send({ body: numbers[next++] });
    };
    to.on("sendable", fill);
    fill();
    assert.deepEqual(await inbox.take(numbers.length), numbers);
});

test("what is sent presettled comes", async (t) => {
    const connection = await connect(t);
    const inbox = await receive(connection, "rhea-presettled");
    const to = await sender(connection, { target: "rhea-presettled", snd_settle_mode: 1 });
    assert.equal(to.snd_settle_mode, 1);
    for (const body of ["a", "b", "c"]) to.send({ body });
    assert.deepEqual(await inbox.take(3), ["a", "b", "c"]);
});

test("a receiver that asks for it gets settled messages", async (t) => {
    const connection = await connect(t);
    const inbox = await receive(connection, { source: "rhea-settled", snd_settle_mode: 1 });
    assert.equal(inbox.receiver.snd_settle_mode, 1);
    const to = await sender(connection, "rhea-settled");
    await publish(to, "a");
    const { message, delivery } = await inbox.next();
    assert.equal(message.body, "a");
    assert.equal(delivery.remote_settled, true);
});

test("the anonymous relay sends each message where it says", async (t) => {
    const connection = await connect(t);
    const red = await receive(connection, "rhea-relay-red");
    const blue = await receive(connection, "rhea-relay-blue");
    const relay = await sender(connection, { target: {} });
    for (const [to, body] of [
        ["rhea-relay-red", 1],
        ["rhea-relay-blue", 2],
        ["topic://rhea-relay-red", 3],
    ]) {
        assert.equal((await send(relay, { to, body, durable: true })).outcome, "accepted");
    }
    assert.deepEqual(await red.take(2), [1, 3]);
    assert.deepEqual(await blue.take(1), [2]);
});

test("rhea's own relay, connection.send, works too", async (t) => {
    const connection = await connect(t);
    const inbox = await receive(connection, "rhea-default-sender");
    const delivery = connection.send({ to: "rhea-default-sender", body: "x", durable: true });
    const { delivery: accepted } = await event(connection, "accepted");
    assert.equal(accepted, delivery);
    assert.deepEqual(await inbox.take(1), ["x"]);
});

test("a message for the relay that says no address is rejected with a reason", async (t) => {
    const connection = await connect(t);
    const relay = await sender(connection, { target: {} });
    const { outcome, delivery } = await send(relay, { body: "lost", durable: true });
    assert.equal(outcome, "rejected");
    assert.equal(delivery.remote_state.error.condition, "amqp:not-found");
    assert.match(delivery.remote_state.error.description, /properties.to/);
});

test("two sessions of a connection are served alike", async (t) => {
    const connection = await connect(t);
    const session = connection.create_session();
    session.begin();
    const receiver = session.attach_receiver("rhea-sessions");
    const inbox = new Inbox(receiver);
    await event(receiver, "receiver_open");
    await publish(await sender(connection, "rhea-sessions"), "a", "b");
    assert.deepEqual(await inbox.take(2), ["a", "b"]);
});
