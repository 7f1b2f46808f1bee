// Queues, their browsers and temporary queues, as rhea asks for them.

import assert from "node:assert/strict";
import { test } from "node:test";
import rhea from "rhea";
import { connect, event, leave, publish, receive, refusal, send, sender } from "./client.js";

const queue = (address, more = {}) => ({ address, capabilities: ["queue"], ...more });

test("a queue keeps what comes while nobody consumes, said by capability", async (t) => {
    const connection = await connect(t);
    const to = await sender(connection, { target: queue("rhea-kept") });
    await publish(to, "a", "b");
    const inbox = await receive(connection, { source: queue("rhea-kept") });
    assert.equal(inbox.receiver.source.address, "rhea-kept");
    assert.deepEqual(await inbox.take(2), ["a", "b"]);
});

test("queue:// in front of an address says the same", async (t) => {
    const connection = await connect(t);
    await publish(await sender(connection, "queue://rhea-prefix"), "a");
    await publish(await sender(connection, { target: queue("rhea-prefix") }), "b");
    const inbox = await receive(connection, "queue://rhea-prefix");
    assert.equal(inbox.receiver.source.address, "queue://rhea-prefix");
    assert.deepEqual(await inbox.take(2), ["a", "b"]);
});

test("consumers of a queue take turns, and one that closes leaves it there", async (t) => {
    const workers = [];
    for (let i = 0; i < 2; i++) {
        workers.push(await receive(await connect(t), { source: queue("rhea-work") }));
    }
    const connection = await connect(t);
    const to = await sender(connection, { target: queue("rhea-work") });
    await publish(to, 0, 1, 2, 3);
    const taken = await Promise.all(workers.map((worker) => worker.take(2)));
    assert.deepEqual(taken.sort(), [
        [0, 2],
        [1, 3],
    ]);
    for (const { receiver } of workers) await leave(receiver, { closed: true });
    await publish(to, 4);
    const inbox = await receive(connection, { source: queue("rhea-work") });
    assert.deepEqual(await inbox.take(1), [4]);
});

test("a topic and a queue of one name are two", async (t) => {
    const connection = await connect(t);
    const topic = await receive(connection, { source: "rhea-both" });
    const inbox = await receive(connection, { source: queue("rhea-both") });
    await publish(await sender(connection, "topic://rhea-both"), "to the topic");
    await publish(await sender(connection, { target: queue("rhea-both") }), "to the queue");
    assert.deepEqual(await topic.take(1), ["to the topic"]);
    assert.deepEqual(await inbox.take(1), ["to the queue"]);
    assert.deepEqual(await topic.rest(), []);
    assert.deepEqual(await inbox.rest(), []);
});

test("an address that contradicts itself is refused", async (t) => {
    const connection = await connect(t);
    const said = [queue("topic://rhea-odd"), { address: "rhea-odd", capabilities: ["queue", "topic"] }];
    for (const source of said) {
        const error = await refusal(connection.open_receiver({ source }));
        assert.equal(error.condition, "amqp:invalid-field");
    }
});

test("the relay reaches a queue by its address or by the annotation of JMS", async (t) => {
    const connection = await connect(t);
    const relay = await sender(connection, { target: {} });
    const annotated = { "x-opt-jms-dest": rhea.types.wrap_byte(0) };
    const messages = [
        { to: "queue://rhea-relayed", body: "address", durable: true },
        { to: "rhea-relayed", body: "annotation", durable: true, message_annotations: annotated },
    ];
    for (const message of messages) {
        assert.equal((await send(relay, message)).outcome, "accepted");
    }
    const inbox = await receive(connection, { source: queue("rhea-relayed") });
    assert.deepEqual(await inbox.take(2), ["address", "annotation"]);
});

test("a browser sees a queue as it is and takes nothing", async (t) => {
    const connection = await connect(t);
    await publish(await sender(connection, { target: queue("rhea-browsed") }), "a", "b");
    const source = queue("rhea-browsed", { distribution_mode: "copy" });
    for (let i = 0; i < 2; i++) {
        const browser = await receive(connection, { source, snd_settle_mode: 1, credit_window: 0 });
        browser.receiver.add_credit(10);
        assert.deepEqual(await browser.rest(), ["a", "b"]);
    }
    const inbox = await receive(connection, { source: queue("rhea-browsed") });
    assert.deepEqual(await inbox.take(2), ["a", "b"]);
});

test("request and reply over a dynamic source", async (t) => {
    const server = await connect(t);
    const requests = server.open_receiver({ source: queue("rhea-requests") });
    const answers = await sender(server, { target: {} });
    requests.on("message", ({ message }) => {
        answers.send({
            to: message.reply_to,
            correlation_id: message.correlation_id,
            body: message.body.toUpperCase(),
        });
    });
    const client = await connect(t);
    const replies = await receive(client, { source: { dynamic: true } });
    const address = replies.receiver.source.address;
    assert.match(address, /^temp-queue:\/\//);
    const to = await sender(client, { target: queue("rhea-requests") });
    for (const [correlation_id, body] of ["one", "two"].entries()) {
        to.send({ reply_to: address, correlation_id, body });
        const { message } = await replies.next();
        assert.deepEqual([message.correlation_id, message.body], [correlation_id, body.toUpperCase()]);
    }
});

test("anybody may send to a temporary queue, only its own connection consumes", async (t) => {
    const owner = await connect(t);
    const inbox = await receive(owner, { source: { dynamic: true } });
    const address = inbox.receiver.source.address;
    const stranger = await connect(t);
    await publish(await sender(stranger, address), "hello");
    assert.deepEqual(await inbox.take(1), ["hello"]);
    const error = await refusal(stranger.open_receiver(address));
    assert.equal(error.condition, "amqp:resource-locked");
});

test("a temporary queue is gone with its link, and its senders hear it", async (t) => {
    const owner = await connect(t);
    const inbox = await receive(owner, { source: { dynamic: true } });
    const address = inbox.receiver.source.address;
    const stranger = await connect(t);
    const to = await sender(stranger, address);
    const ended = event(to, "sender_error");
    await leave(inbox.receiver, { closed: true });
    await ended;
    assert.equal(to.error.condition, "amqp:resource-deleted");
    const error = await refusal(stranger.open_sender(address));
    assert.equal(error.condition, "amqp:not-found");
});

test("a dynamic target makes a temporary queue or topic, as JMS clients do", async (t) => {
    for (const kind of ["temporary-queue", "temporary-topic"]) {
        const connection = await connect(t);
        const target = { dynamic: true, capabilities: [kind] };
        const maker = await sender(connection, { target });
        assert.match(maker.target.address, /^temp-(queue|topic):\/\//);
        const inbox = await receive(connection, maker.target.address);
        await publish(await sender(connection, maker.target.address), kind);
        assert.deepEqual(await inbox.take(1), [kind]);
    }
});

test("a link that desires capabilities is told which it has", async (t) => {
    const connection = await connect(t);
    const { receiver } = await receive(connection, {
        name: "told|volatile1",
        source: { address: "rhea-told", capabilities: ["topic", "shared"] },
        desired_capabilities: ["SHARED-SUBS", "example:nonsense"],
    });
    assert.deepEqual([receiver.offered_capabilities].flat(), ["SHARED-SUBS"]);
});
