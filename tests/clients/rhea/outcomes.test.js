// Outcomes, credit and settlement as rhea gives them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, durable, event, leave, publish, receive, sender } from "./client.js";

/** A durable subscription whose messages are settled by hand, and a sender to its topic. */
async function byHand(t, name, options = {}) {
    const connection = await connect(t, { container_id: name });
    const subscription = durable(name, name, { autoaccept: false, ...options });
    const inbox = await receive(connection, subscription);
    const to = await sender(connection, name);
    return { connection, subscription, inbox, to };
}

/** What the subscription still has, after its consumer has gone and come again. */
async function left({ connection, subscription, inbox }) {
    await leave(inbox.receiver, { closed: false });
    return (await receive(connection, { ...subscription, autoaccept: true })).rest();
}

test("what is accepted or rejected is done", async (t) => {
    const case_ = await byHand(t, "rhea-done");
    await publish(case_.to, "accepted", "rejected", "held");
    (await case_.inbox.next()).delivery.accept();
    const error = { condition: "mine:no", description: "not for me" };
    (await case_.inbox.next()).delivery.reject(error);
    await case_.inbox.next();
    assert.deepEqual(await left(case_), ["held"]);
});

test("what is released comes again, uncounted", async (t) => {
    const { inbox, to } = await byHand(t, "rhea-released");
    await publish(to, "a");
    const first = await inbox.next();
    assert.ok(!first.message.delivery_count);
    first.delivery.release();
    const second = await inbox.next();
    assert.equal(second.message.body, "a");
    assert.ok(!second.message.delivery_count);
    second.delivery.accept();
});

test("what is modified as failed comes again, counted", async (t) => {
    const { inbox, to } = await byHand(t, "rhea-modified");
    await publish(to, "a");
    (await inbox.next()).delivery.modified({ delivery_failed: true });
    const second = await inbox.next();
    assert.equal(second.message.delivery_count, 1);
    second.delivery.release({ delivery_failed: true }); // rhea's other way to say it
    const third = await inbox.next();
    assert.equal(third.message.delivery_count, 2);
    third.delivery.accept();
});

test("what is undeliverable here doesn't come again", async (t) => {
    const case_ = await byHand(t, "rhea-undeliverable");
    await publish(case_.to, "poison", "good");
    (await case_.inbox.next()).delivery.modified({ undeliverable_here: true });
    assert.deepEqual(await case_.inbox.take(1), ["good"]);
    assert.deepEqual(await left(case_), ["good"]);
});

test("an outcome that is left unsettled is settled by the gateway", async (t) => {
    const { inbox, to } = await byHand(t, "rhea-second", { rcv_settle_mode: 1 });
    await publish(to, "a");
    const { delivery } = await inbox.next();
    const settled = event(inbox.receiver, "settled");
    delivery.accept(); // mode second: rhea sends it unsettled
    assert.equal((await settled).delivery, delivery);
});

test("the answer doesn't claim settle mode second", async (t) => {
    const { inbox } = await byHand(t, "rhea-second-answered", { rcv_settle_mode: 1 });
    assert.ok(!inbox.receiver.rcv_settle_mode);
});

test("no more comes than there is credit for", async (t) => {
    const { inbox, to } = await byHand(t, "rhea-credit", { credit_window: 0, autoaccept: true });
    await publish(to, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
    inbox.receiver.add_credit(3);
    assert.deepEqual(await inbox.take(3), [0, 1, 2]);
    inbox.receiver.add_credit(2);
    assert.deepEqual(await inbox.take(2), [3, 4]);
    assert.equal(inbox.receiver.credit, 0);
});

test("a drain brings what is there and gives back the rest of the credit", async (t) => {
    const { inbox, to } = await byHand(t, "rhea-drain", { credit_window: 0, autoaccept: true });
    await publish(to, "a", "b");
    inbox.receiver.add_credit(10);
    assert.deepEqual(await inbox.rest(), ["a", "b"]);
    assert.equal(inbox.receiver.credit, 0);
    inbox.receiver.add_credit(10);
    assert.deepEqual(await inbox.rest(), []);
    await publish(to, "c");
    inbox.receiver.add_credit(1);
    assert.deepEqual(await inbox.take(1), ["c"]);
});

test("a drain without credit is answered, and credit given later holds", async (t) => {
    const { inbox, to } = await byHand(t, "rhea-no-credit", { credit_window: 0, autoaccept: true });
    await publish(to, "a", "b");
    assert.deepEqual(await inbox.rest(), []);
    inbox.receiver.add_credit(1);
    assert.deepEqual(await inbox.take(1), ["a"]);
    assert.deepEqual(await inbox.rest(), []);
    inbox.receiver.add_credit(1);
    assert.deepEqual(await inbox.take(1), ["b"]);
});

test("deliveries settled out of turn are settled one by one", async (t) => {
    const case_ = await byHand(t, "rhea-backwards");
    const numbers = [0, 1, 2, 3, 4, 5];
    await publish(case_.to, ...numbers);
    const came = [];
    for (const number of numbers) {
        const context = await case_.inbox.next();
        assert.equal(context.message.body, number);
        came.push(context.delivery);
    }
    for (const number of [5, 3, 0]) came[number].accept();
    assert.deepEqual(await left(case_), [1, 2, 4]);
});

test("no more comes than the session's window takes, whatever the credit", async (t) => {
    // rhea keeps 2,048 deliveries of a session; one more would throw.
    const { connection, inbox, to } = await byHand(t, "rhea-window", { credit_window: 0 });
    const numbers = Array.from({ length: 3_000 }, (_, i) => i);
    for (let at = 0; at < numbers.length; at += 1_000) {
        await publish(to, ...numbers.slice(at, at + 1_000));
    }
    inbox.receiver.add_credit(3_000);
    const held = [];
    while (held.length < 2_048) held.push(await inbox.next());
    await publish(await sender(connection, "rhea-window-other"), "a round trip");
    assert.equal(inbox.receiver.credit, 3_000 - 2_048);
    for (const { delivery } of held) delivery.accept();
    while (held.length < 3_000) held.push(await inbox.next());
    assert.deepEqual(held.map(({ message }) => message.body), numbers);
});

test("a producer's link may be used while another's messages wait for nobody", async (t) => {
    const connection = await connect(t);
    const lonely = await sender(connection, "rhea-lonely");
    await publish(lonely, ...Array.from({ length: 100 }, (_, i) => i));
    const inbox = await receive(connection, "rhea-company");
    await publish(await sender(connection, "rhea-company"), "a");
    assert.deepEqual(await inbox.take(1), ["a"]);
});
