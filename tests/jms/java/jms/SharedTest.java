package jms;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Shared subscriptions that live as long as they have a consumer. */
class SharedTest extends Client {
    private static final String NO_PREFETCH = "jms.prefetchPolicy.all=0";

    @Test
    @DisplayName("Connections without a client id share it; each message goes to one of them.")
    void sharedByAll() throws Exception {
        Connection one = connectWith(NO_PREFETCH);
        Connection other = connectWith(NO_PREFETCH);
        Topic topic = auto(one).createTopic(name("shared"));
        MessageConsumer first = auto(one).createSharedConsumer(topic, name("s"));
        MessageConsumer second = auto(other).createSharedConsumer(topic, name("s"));
        publish(one, topic, "one", "two", "three");
        expect(second, "one");
        expect(first, "two", "three");
        expectNothing(second);
    }

    @Test
    @DisplayName("Several consumers of one client share it.")
    void sharedInOneClient() throws Exception {
        Connection connection = open(uri(Gateway.SHARED, NO_PREFETCH), name("c"));
        Topic topic = auto(connection).createTopic(name("client"));
        MessageConsumer first = auto(connection).createSharedConsumer(topic, "s");
        MessageConsumer second = auto(connection).createSharedConsumer(topic, "s");
        publish(connection, topic, "one", "two");
        expect(first, "one");
        expect(second, "two");
    }

    @Test
    @DisplayName("A client's shared subscription and the global one of the same name are two.")
    void scopesAreApart() throws Exception {
        Connection client = connect(name("c"));
        Connection all = connect();
        Topic topic = auto(all).createTopic(name("scopes"));
        MessageConsumer scoped = auto(client).createSharedConsumer(topic, name("s"));
        MessageConsumer global = auto(all).createSharedConsumer(topic, name("s"));
        publish(all, topic, "one");
        expect(scoped, "one");
        expect(global, "one");
    }

    @Test
    @DisplayName("It outlives a consumer as long as there is another, with what was prefetched.")
    void outlivesAConsumer() throws Exception {
        Connection one = connect();
        Connection other = connectWith(NO_PREFETCH);
        Topic topic = auto(one).createTopic(name("outlives"));
        auto(one).createSharedConsumer(topic, name("s"));
        MessageConsumer second = auto(other).createSharedConsumer(topic, name("s"));
        publish(other, topic, "one", "two");
        one.close();
        expect(second, "one", "two");
    }

    @Test
    @DisplayName("With its last consumer it is gone, and what it was owed with it.")
    void endsWithTheLast() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Topic topic = session.createTopic(name("ends"));
        session.createSharedConsumer(topic, name("s")).close();
        publish(connection, topic, "one");
        expectNothing(session.createSharedConsumer(topic, name("s")));
    }

    @Test
    @DisplayName("It ends with the session of its last consumer too.")
    void endsWithTheSession() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Topic topic = session.createTopic(name("session"));
        session.createSharedConsumer(topic, name("s"));
        session.close();
        publish(connection, topic, "one");
        expectNothing(auto(connection).createSharedConsumer(topic, name("s")));
    }

    @Test
    @DisplayName("It doesn't survive a restart of the gateway.")
    void doesNotSurvive() throws Exception {
        Gateway gateway = ownGateway();
        Connection connection = open(uri(gateway, ""), null);
        Topic topic = auto(connection).createTopic("t");
        auto(connection).createSharedConsumer(topic, "s");
        publish(connection, topic, "one");
        gateway.restart();
        expectNothing(auto(open(uri(gateway, ""), null)).createSharedConsumer(topic, "s"));
    }

    @Test
    @DisplayName("Another topic is refused while others consume it.")
    void otherTopicRefused() throws Exception {
        Connection one = connect();
        Connection other = connect();
        Topic topic = auto(one).createTopic(name("this"));
        MessageConsumer consumer = auto(one).createSharedConsumer(topic, name("s"));
        Session session = auto(other);
        Topic elsewhere = session.createTopic(name("that"));
        JMSException refused = assertThrows(
                JMSException.class, () -> session.createSharedConsumer(elsewhere, name("s")));
        assertTrue(refused.getMessage().contains("amqp:resource-locked"), refused.getMessage());
        publish(one, topic, "one");
        expect(consumer, "one");
    }

    @Test
    @DisplayName("It can't be unsubscribed: unsubscribe is for durable ones.")
    void notUnsubscribed() throws Exception {
        Connection one = connect();
        Topic topic = auto(one).createTopic(name("volatile"));
        auto(one).createSharedConsumer(topic, name("s"));
        Session session = auto(connect());
        assertThrows(InvalidDestinationException.class, () -> session.unsubscribe(name("s")));
    }
}
