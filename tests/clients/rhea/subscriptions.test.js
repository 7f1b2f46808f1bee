// Subscriptions as rhea asks for them: by a link's name and its source.

import assert from "node:assert/strict";
import { test } from "node:test";
import rhea from "rhea";
import {
    DURABLE,
    connect,
    durable,
    event,
    Gateway,
    leave,
    publish,
    receive,
    refusal,
    sender,
    shared,
} from "./client.js";

const GLOBAL = ["topic", "shared", "global"];

test("a plain receiver gets what is published while it is there", async (t) => {
    const connection = await connect(t);
    const to = await sender(connection, "rhea-plain");
    await publish(to, "before");
    const inbox = await receive(connection, "rhea-plain");
    await publish(to, "after");
    assert.deepEqual(await inbox.take(1), ["after"]);
    assert.deepEqual(await inbox.rest(), []);
});

test("the answer to an attach says what was asked for", async (t) => {
    const connection = await connect(t, { container_id: "rhea-echo" });
    const { receiver } = await receive(connection, durable("echo", "rhea-echo"));
    assert.equal(receiver.source.address, "rhea-echo");
    assert.equal(receiver.source.durable, 2);
    assert.equal(receiver.source.expiry_policy, "never");
});

test("a durable subscription keeps what comes while it is detached", async (t) => {
    const connection = await connect(t, { container_id: "rhea-durable" });
    const to = await sender(connection, "rhea-durable");
    const first = await receive(connection, durable("keeps", "rhea-durable"));
    await publish(to, "a");
    assert.deepEqual(await first.take(1), ["a"]);
    await leave(first.receiver, { closed: false });
    await publish(to, "b", "c");
    const second = await receive(connection, durable("keeps", "rhea-durable"));
    assert.deepEqual(await second.take(2), ["b", "c"]);
});

test("a durable subscription outlives its connection and the gateway", async (t) => {
    const gateway = await Gateway.start(t);
    const options = { port: gateway.port, container_id: "rhea-outlives" };
    const subscription = durable("outlives", "rhea-outlives");
    const first = await connect(t, options);
    await receive(first, subscription);
    first.close();
    await event(first, "connection_close");
    const producer = await connect(t, { port: gateway.port });
    await publish(await sender(producer, "rhea-outlives"), "a", "b");
    await gateway.kill();
    await gateway.up();
    const inbox = await receive(await connect(t, options), subscription);
    assert.deepEqual(await inbox.take(2), ["a", "b"]);
});

test("closing a durable link ends the subscription", async (t) => {
    const connection = await connect(t, { container_id: "rhea-closes" });
    const to = await sender(connection, "rhea-closes");
    const first = await receive(connection, durable("closes", "rhea-closes"));
    await leave(first.receiver, { closed: true });
    assert.equal(first.receiver.error, undefined);
    await publish(to, "gone");
    const second = await receive(connection, durable("closes", "rhea-closes"));
    await publish(to, "here");
    assert.deepEqual(await second.take(1), ["here"]);
});

test("a null source finds a durable subscription, and closing it unsubscribes", async (t) => {
    const connection = await connect(t, { container_id: "rhea-lookup" });
    const first = await receive(connection, durable("lookup", "rhea-lookup"));
    await leave(first.receiver, { closed: false });
    const found = await receive(connection, { name: "lookup", source: null, credit_window: 0 });
    assert.equal(found.receiver.source.address, "rhea-lookup");
    await leave(found.receiver, { closed: true });
    const again = connection.open_receiver({ name: "lookup", source: null, credit_window: 0 });
    assert.equal((await refusal(again)).condition, "amqp:not-found");
});

test("a durable subscription has one consumer, and a second one is refused", async (t) => {
    const connection = await connect(t, { container_id: "rhea-exclusive" });
    await receive(connection, durable("alone", "rhea-exclusive"));
    const session = connection.create_session();
    session.begin();
    const second = session.attach_receiver(durable("alone", "rhea-exclusive"));
    assert.equal((await refusal(second)).condition, "amqp:resource-locked");
});

test("consumers of a global shared subscription take turns, over connections", async (t) => {
    const workers = [];
    for (const name of ["pool|global", "pool|global", "pool|global2"]) {
        const connection = await connect(t);
        const options = shared(name, "rhea-pool", GLOBAL, DURABLE);
        workers.push(await receive(connection, options));
    }
    const connection = await connect(t);
    await publish(await sender(connection, "rhea-pool"), ...[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    const taken = [];
    for (const worker of workers) {
        const three = await worker.take(3);
        assert.deepEqual([three[1] - three[0], three[2] - three[1]], [3, 3]);
        taken.push(...three);
    }
    assert.deepEqual(taken.sort(), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
});

test("a shared subscription that isn't durable ends with its last consumer", async (t) => {
    const connection = await connect(t, { container_id: "rhea-volatile" });
    const to = await sender(connection, "rhea-volatile");
    const words = ["topic", "shared"];
    const one = await receive(connection, shared("v|volatile1", "rhea-volatile", words));
    const two = await receive(connection, shared("v|volatile2", "rhea-volatile", words));
    await publish(to, "a", "b");
    const both = await Promise.all([one.take(1), two.take(1)]);
    assert.deepEqual(both.flat().sort(), ["a", "b"]);
    for (const { receiver } of [one, two]) await leave(receiver, { closed: true });
    await publish(to, "missed");
    const three = await receive(connection, shared("v|volatile1", "rhea-volatile", words));
    assert.deepEqual(await three.rest(), []);
});

test("a lost consumer's messages go to the others, in their old place", async (t) => {
    const dying = await connect(t);
    const options = shared("lost|global", "rhea-lost", GLOBAL, DURABLE);
    const held = await receive(dying, { ...options, autoaccept: false });
    const connection = await connect(t);
    await publish(await sender(connection, "rhea-lost"), 0, 1, 2, 3);
    assert.deepEqual(await held.take(4), [0, 1, 2, 3]);
    dying.socket.destroy();
    const inbox = await receive(connection, options);
    assert.deepEqual(await inbox.take(4), [0, 1, 2, 3]);
});

test("a selector chooses what comes, and the answer names it", async (t) => {
    const connection = await connect(t);
    const filter = rhea.filter.selector("colour = 'red' AND size > 1");
    const inbox = await receive(connection, { source: { address: "rhea-selector", filter } });
    assert.ok("jms-selector" in inbox.receiver.source.filter);
    const to = await sender(connection, "rhea-selector");
    for (const [colour, size] of [["red", 1], ["red", 2], ["blue", 3], ["red", 4]]) {
        to.send({ body: size, application_properties: { colour, size } });
    }
    assert.deepEqual(await inbox.take(2), [2, 4]);
    assert.deepEqual(await inbox.rest(), []);
});

test("a selector that can't be read is refused with its fault", async (t) => {
    const connection = await connect(t);
    const receiver = connection.open_receiver({
        source: { address: "rhea-selector", filter: rhea.filter.selector("colour = = 'red'") },
    });
    assert.equal((await refusal(receiver)).condition, "amqp:invalid-field");
    assert.match(receiver.error.description, /selector/);
});

test("a filter that nobody knows isn't among those that the answer names", async (t) => {
    const connection = await connect(t);
    const filter = { mine: rhea.types.wrap_described("x", "example:mine:string") };
    const { receiver } = await receive(connection, {
        source: { address: "rhea-filter", filter },
    });
    assert.ok(!receiver.source.filter || !("mine" in receiver.source.filter));
});

test("a topic's address may begin with topic://", async (t) => {
    const connection = await connect(t);
    const inbox = await receive(connection, "topic://rhea-address");
    await publish(await sender(connection, "rhea-address"), "a");
    assert.deepEqual(await inbox.take(1), ["a"]);
});
