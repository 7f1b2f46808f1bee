package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Durable subscriptions that several consumers share: one client's, and (without client id) all. */
class SharedDurableTest extends Client {
    @Test
    @DisplayName("Connections without a client id share one subscription; each message goes once.")
    void sharedByAll() throws Exception {
        Connection one = connectWith("jms.prefetchPolicy.all=0");
        Connection other = connectWith("jms.prefetchPolicy.all=0");
        Topic topic = auto(one).createTopic(name("global"));
        MessageConsumer first = auto(one).createSharedDurableConsumer(topic, name("s"));
        MessageConsumer second = auto(other).createSharedDurableConsumer(topic, name("s"));
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
        Connection connection = open(uri(Gateway.SHARED, "jms.prefetchPolicy.all=0"), name("c"));
        Topic topic = auto(connection).createTopic(name("client"));
        Session session = auto(connection);
        MessageConsumer first = session.createSharedDurableConsumer(topic, "s");
        MessageConsumer second = session.createSharedDurableConsumer(topic, "s");
        MessageConsumer third = auto(connection).createSharedDurableConsumer(topic, "s");
        publish(connection, topic, "one", "two", "three");
        expect(third, "one");
        expect(first, "two");
        expect(second, "three");
        expectNothing(third);
    }

    @Test
    @DisplayName("It keeps what is published while nobody consumes.")
    void keepsWhileAway() throws Exception {
        Connection publisher = connect();
        Topic topic = auto(publisher).createTopic(name("away"));
        Connection connection = connect();
        auto(connection).createSharedDurableConsumer(topic, name("s"));
        connection.close();
        publish(publisher, topic, "one", "two");
        MessageConsumer again = auto(connect()).createSharedDurableConsumer(topic, name("s"));
        expect(again, "one", "two");
        expectNothing(again);
    }

    @Test
    @DisplayName("It survives the death of the gateway, global or of a client.")
    void survivesKill() throws Exception {
        Gateway gateway = ownGateway();
        Connection all = open(uri(gateway, ""), null);
        Connection client = open(uri(gateway, ""), "c");
        Topic topic = auto(all).createTopic("t");
        auto(all).createSharedDurableConsumer(topic, "s").close();
        auto(client).createSharedDurableConsumer(topic, "s").close();
        publish(all, topic, "one", "two");
        gateway.kill();
        gateway.start();
        MessageConsumer first = auto(open(uri(gateway, ""), null)).createSharedDurableConsumer(topic, "s");
        MessageConsumer second = auto(open(uri(gateway, ""), "c")).createSharedDurableConsumer(topic, "s");
        expect(first, "one", "two");
        expect(second, "one", "two");
        expectNothing(first);
        expectNothing(second);
    }

    @Test
    @DisplayName("A client's subscription and the global one of the same name are two.")
    void scopesAreApart() throws Exception {
        Connection client = connect(name("c"));
        Connection all = connect();
        Topic topic = auto(all).createTopic(name("scopes"));
        MessageConsumer scoped = auto(client).createSharedDurableConsumer(topic, name("s"));
        MessageConsumer global = auto(all).createSharedDurableConsumer(topic, name("s"));
        publish(all, topic, "one");
        expect(scoped, "one");
        expect(global, "one");
    }

    @Test
    @DisplayName("A durable and a non-durable shared subscription of one name are two.")
    void durabilitiesAreApart() throws Exception {
        Connection connection = connect();
        Topic topic = auto(connection).createTopic(name("kinds"));
        MessageConsumer durable = auto(connection).createSharedDurableConsumer(topic, name("s"));
        MessageConsumer volatileOne = auto(connection).createSharedConsumer(topic, name("s"));
        publish(connection, topic, "one");
        expect(durable, "one");
        expect(volatileOne, "one");
    }

    @Test
    @DisplayName("Another connection can't unsubscribe it while it has a consumer, and can after.")
    void unsubscribeWaitsForTheLast() throws Exception {
        Connection one = connect();
        Connection other = connect();
        Topic topic = auto(one).createTopic(name("unsubscribe"));
        MessageConsumer consumer = auto(one).createSharedDurableConsumer(topic, name("s"));
        Session third = auto(other);
        JMSException refused = assertThrows(JMSException.class, () -> third.unsubscribe(name("s")));
        assertTrue(refused.getMessage().contains("amqp:resource-locked"), refused.getMessage());
        publish(one, topic, "still there");
        expect(consumer, "still there");
        consumer.close();
        third.unsubscribe(name("s"));
        assertThrows(InvalidDestinationException.class, () -> third.unsubscribe(name("s")));
    }

    @Test
    @DisplayName("A client unsubscribes its own shared subscription, not the global one.")
    void unsubscribeOwnScope() throws Exception {
        Connection client = connect(name("c"));
        Connection all = connect();
        Topic topic = auto(all).createTopic(name("own"));
        auto(client).createSharedDurableConsumer(topic, name("s")).close();
        auto(all).createSharedDurableConsumer(topic, name("s")).close();
        publish(all, topic, "one");
        auto(client).unsubscribe(name("s"));
        expect(auto(all).createSharedDurableConsumer(topic, name("s")), "one");
        expectNothing(auto(client).createSharedDurableConsumer(topic, name("s")));
    }

    @Test
    @DisplayName("Another topic is refused while others consume, and begins anew when none does.")
    void redefined() throws Exception {
        Connection one = connect();
        Connection other = connect();
        Topic before = auto(one).createTopic(name("before"));
        Topic after = auto(one).createTopic(name("after"));
        MessageConsumer consumer = auto(one).createSharedDurableConsumer(before, name("s"));
        Session session = auto(other);
        JMSException refused = assertThrows(
                JMSException.class, () -> session.createSharedDurableConsumer(after, name("s")));
        assertTrue(refused.getMessage().contains("amqp:resource-locked"), refused.getMessage());
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
        Connection one = connectWith("jms.prefetchPolicy.all=0");
        Connection other = connectWith("jms.prefetchPolicy.all=0");
        Topic topic = auto(one).createTopic(name("left"));
        Session session = session(one, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer first = session.createSharedDurableConsumer(topic, name("s"));
        MessageConsumer second = auto(other).createSharedDurableConsumer(topic, name("s"));
        publish(other, topic, "one", "two");
        expect(first, "one");
        session.close();
        assertTrue(next(second).getJMSRedelivered());
        expect(second, "two");
    }

    @Test
    @DisplayName("Ten consumers in ten connections receive a thousand messages once each.")
    void tenConsumers() throws Exception {
        Connection publisher = connect();
        Topic topic = auto(publisher).createTopic(name("ten"));
        List<MessageConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            Connection connection = connectWith("jms.prefetchPolicy.all=10");
            consumers.add(auto(connection).createSharedDurableConsumer(topic, name("s")));
        }
        publishMany(publisher, topic, 1_000);
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
