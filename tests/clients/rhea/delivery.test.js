// When messages come and to whom: delays, expiry, priority, selectors, groups, dead letters.

import assert from "node:assert/strict";
import { test } from "node:test";
import rhea from "rhea";
import { connect, publish, receive, send, sender } from "./client.js";

const queue = (name, options = {}) => ({ address: name, capabilities: ["queue"], ...options });

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Send each, and wait until all are accepted. */
async function fill(connection, name, ...messages) {
    const to = await sender(connection, { target: queue(name) });
    for (const message of messages) {
        assert.equal((await send(to, { durable: true, ...message })).outcome, "accepted");
    }
}

test("a delay and a time of delivery hold a message, and no other", async (t) => {
    const connection = await connect(t);
    assert.ok(connection.offered_capabilities.includes("DELAYED_DELIVERY"));
    const inbox = await receive(connection, { source: queue("rhea-delay") });
    const sent = Date.now();
    const annotated = [
        { "x-opt-delivery-delay": rhea.types.wrap_ulong(5000) },
        { "x-opt-delivery-time": rhea.types.wrap_timestamp(sent + 2500) },
    ];
    const [later, sooner] = annotated.map((message_annotations) => ({ message_annotations }));
    const bodies = [{ body: "later", ...later }, { body: "sooner", ...sooner }, { body: "now" }];
    await fill(connection, "rhea-delay", ...bodies);
    assert.deepEqual(await inbox.take(2), ["now", "sooner"]);
    assert.ok(Date.now() >= sent + 2500);
    assert.deepEqual(await inbox.take(1), ["later"]);
    assert.ok(Date.now() >= sent + 5000);
});

test("what has expired doesn't come, by its ttl and by its time", async (t) => {
    const connection = await connect(t);
    await fill(
        connection,
        "rhea-expiry",
        { body: "ttl", ttl: 100 },
        { body: "time", absolute_expiry_time: Date.now() + 100 },
        { body: "long", ttl: 60_000 },
    );
    await pause(200);
    const inbox = await receive(connection, { source: queue("rhea-expiry") });
    const { message } = await inbox.next();
    assert.equal(message.body, "long");
    assert.equal(message.ttl, 60_000);
    assert.deepEqual(await inbox.rest(), []);
});

test("what is urgent comes first", async (t) => {
    const connection = await connect(t);
    const bodies = [4, 0, 9, 5, 9].map((priority, nth) => ({ body: `${priority}/${nth}`, priority }));
    await fill(connection, "rhea-priority", ...bodies);
    const inbox = await receive(connection, { source: queue("rhea-priority") });
    assert.deepEqual(await inbox.take(5), ["9/2", "9/4", "5/3", "4/0", "0/1"]);
});

test("consumers of a queue select, and leave the rest", async (t) => {
    const connection = await connect(t);
    const coloured = (colour) => ({ body: colour, application_properties: { colour } });
    await fill(connection, "rhea-select", coloured("red"), coloured("blue"), coloured("red"));
    const filter = rhea.filter.selector("colour = 'blue'");
    const blue = await receive(connection, { source: queue("rhea-select", { filter }) });
    assert.ok("jms-selector" in blue.receiver.source.filter);
    assert.deepEqual(await blue.take(1), ["blue"]);
    assert.deepEqual(await blue.rest(), []);
    const all = await receive(connection, { source: queue("rhea-select") });
    assert.deepEqual(await all.take(2), ["red", "red"]);
});

test("messages of a group go to one consumer", async (t) => {
    const connection = await connect(t);
    const options = { source: queue("rhea-group"), autoaccept: false };
    const [first, second] = [await receive(connection, options), await receive(connection, options)];
    const grouped = ["a", "b", "a", "b", "a"].map((group_id, nth) => ({ body: group_id + nth, group_id }));
    await fill(connection, "rhea-group", ...grouped);
    assert.deepEqual(await first.take(3), ["a0", "a2", "a4"]);
    assert.deepEqual(await second.take(2), ["b1", "b3"]);
});

test("a rejected message is a dead letter that says where it is from", async (t) => {
    const connection = await connect(t);
    const before = Date.now();
    await publish(await sender(connection, { target: queue("rhea-dead") }), "bad");
    const inbox = await receive(connection, { source: queue("rhea-dead"), autoaccept: false });
    (await inbox.next()).delivery.reject({ condition: "mine:no" });
    const dead = await receive(connection, { source: queue("DLQ.queue/rhea-dead") });
    const { message } = await dead.next();
    assert.equal(message.body, "bad");
    const { "x-opt-dead-letter-at": at, ...said } = message.message_annotations;
    assert.ok(at >= before && at <= Date.now());
    assert.ok(said["x-opt-dead-letter-sequence"] >= 0);
    delete said["x-opt-dead-letter-sequence"];
    assert.deepEqual(said, {
        "x-opt-dead-letter-subscription": "queue/rhea-dead",
        "x-opt-dead-letter-topic": "queue://rhea-dead",
        "x-opt-dead-letter-reason": "rejected",
        "x-opt-dead-letter-attempts": 1,
    });
});
