package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Durable subscriptions that several consumers share: one client's, and (without client id) all. */
class SharedDurableTest extends SharedClients {
    @Test
    @DisplayName("Connections without a client id share one subscription; each message goes once.")
    void sharedByAll() throws Exception {
        MessageConsumer first = shareDurable(one, topic);
        MessageConsumer second = shareDurable(other, topic);
        publish(one, topic, "one", "two", "three", "four");
        List<String> got = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            got.add(text(first));
            got.add(text(second));
        }
        assertEquals(List.of("one", "two", "three", "four"), got);
        expectNothing(first);
        expectNothing(second);
    }

    @Test
    @DisplayName("Several consumers of one connection with a client id share its subscription.")
    void sharedInOneClient() throws Exception {
        Session session = auto(client);
        MessageConsumer first = session.createSharedDurableConsumer(topic, name("s"));
        MessageConsumer second = session.createSharedDurableConsumer(topic, name("s"));
        MessageConsumer third = shareDurable(client, topic);
        publish(one, topic, "one", "two", "three");
        expect(third, "one");
        expect(first, "two");
        expect(second, "three");
        expectNothing(third);
    }

    @Test
    @DisplayName("It keeps what is published while nobody consumes.")
    void keepsWhileAway() throws Exception {
        shareDurable(one, topic);
        one.close();
        publish(client, topic, "one", "two");
        MessageConsumer again = shareDurable(other, topic);
        expect(again, "one", "two");
        expectNothing(again);
    }

    @Test
    @DisplayName("It survives the death of the gateway, global or of a client.")
    void survivesKill() throws Exception {
        Gateway gateway = ownGateway();
        Connection all = connectTo(gateway, null);
        shareDurable(all, topic).close();
        shareDurable(connectTo(gateway, "c"), topic).close();
        publish(all, topic, "one", "two");
        gateway.crash();
        MessageConsumer first = shareDurable(connectTo(gateway, null), topic);
        MessageConsumer second = shareDurable(connectTo(gateway, "c"), topic);
        expect(first, "one", "two");
        expect(second, "one", "two");
        expectNothing(first);
        expectNothing(second);
    }

    @Test
    @DisplayName("A client's subscription and the global one of the same name are two.")
    void scopesAreApart() throws Exception {
        MessageConsumer scoped = shareDurable(client, topic);
        MessageConsumer global = shareDurable(one, topic);
        publish(one, topic, "one");
        expect(scoped, "one");
        expect(global, "one");
    }

    @Test
    @DisplayName("A durable and a non-durable shared subscription of one name are two.")
    void durabilitiesAreApart() throws Exception {
        MessageConsumer durable = shareDurable(one, topic);
        MessageConsumer volatileOne = share(one, topic);
        publish(one, topic, "one");
        expect(durable, "one");
        expect(volatileOne, "one");
    }

    @Test
    @DisplayName("Another connection can't unsubscribe it while it has a consumer, and can after.")
    void unsubscribeWaitsForTheLast() throws Exception {
        MessageConsumer consumer = shareDurable(one, topic);
        Session third = auto(other);
        expectRefused("amqp:resource-locked", () -> third.unsubscribe(name("s")));
        publish(one, topic, "still there");
        expect(consumer, "still there");
        consumer.close();
        third.unsubscribe(name("s"));
        assertThrows(InvalidDestinationException.class, () -> third.unsubscribe(name("s")));
    }

    @Test
    @DisplayName("A client unsubscribes its own shared subscription, not the global one.")
    void unsubscribeOwnScope() throws Exception {
        shareDurable(client, topic).close();
        shareDurable(one, topic).close();
        publish(one, topic, "one");
        auto(client).unsubscribe(name("s"));
        expect(shareDurable(one, topic), "one");
        expectNothing(shareDurable(client, topic));
    }

    @Test
    @DisplayName("Another topic is refused while others consume, and begins anew when none does.")
    void redefined() throws Exception {
        Topic before = auto(one).createTopic(name("before"));
        Topic after = auto(one).createTopic(name("after"));
        MessageConsumer consumer = shareDurable(one, before);
        Session session = auto(other);
        expectRefused(
                "amqp:resource-locked", () -> session.createSharedDurableConsumer(after, name("s")));
        publish(one, before, "one");
        expect(consumer, "one");
        consumer.close();
        MessageConsumer anew = session.createSharedDurableConsumer(after, name("s"));
        publish(one, before, "elsewhere");
        publish(one, after, "two");
        expect(anew, "two");
        expectNothing(anew);
    }

    @Test
    @DisplayName("What one consumer leaves unacknowledged goes to another, marked as redelivered.")
    void leftoversGoToTheOthers() throws Exception {
        Session session = session(one, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer first = session.createSharedDurableConsumer(topic, name("s"));
        MessageConsumer second = shareDurable(other, topic);
        publish(other, topic, "one", "two");
        expect(first, "one");
        session.close();
        assertTrue(next(second).getJMSRedelivered());
        expect(second, "two");
    }

    @Test
    @DisplayName("With prefetch 0 a consumer holds nothing that it didn't ask for.")
    void zeroHoldsNothing() throws Exception {
        MessageConsumer idle = shareDurable(one, topic);
        MessageConsumer busy = shareDurable(one, topic);
        publish(one, topic, "one", "two", "three");
        expect(busy, "one", "two", "three");
        assertNull(idle.receiveNoWait());
    }

    @Test
    @DisplayName("Consumers that prefetch share in turn: neither goes without.")
    void inTurn() throws Exception {
        Connection ten = connectWith("jms.prefetchPolicy.all=10");
        MessageConsumer first = shareDurable(ten, topic);
        MessageConsumer second = shareDurable(ten, topic);
        publish(one, topic, "a", "b", "c", "d");
        List<String> all = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            all.add(text(first));
            all.add(text(second));
        }
        all.sort(null);
        assertEquals(List.of("a", "b", "c", "d"), all);
    }

    @Test
    @DisplayName("Ten consumers in ten connections receive a thousand messages once each.")
    void tenConsumers() throws Exception {
        List<MessageConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            Connection connection = connectWith("jms.prefetchPolicy.all=10");
            consumers.add(shareDurable(connection, topic));
        }
        publishMany(one, topic, 1_000);
        List<Integer> got = new ArrayList<>();
        long deadline = System.currentTimeMillis() + 2 * PATIENCE;
        while (got.size() < 1_000 && System.currentTimeMillis() < deadline) {
            for (MessageConsumer consumer : consumers) {
                jakarta.jms.Message message = consumer.receiveNoWait();
                if (message != null) {
                    got.add(Integer.valueOf(message.getBody(String.class)));
                }
            }
        }
        got.sort(null);
        assertEquals(java.util.stream.IntStream.range(0, 1_000).boxed().toList(), got);
    }
}
