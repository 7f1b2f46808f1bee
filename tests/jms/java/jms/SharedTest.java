package jms;

import static org.junit.jupiter.api.Assertions.assertThrows;

import jakarta.jms.Connection;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Shared subscriptions that live as long as they have a consumer. */
class SharedTest extends SharedClients {
    @Test
    @DisplayName("Connections without a client id share it; each message goes to one of them.")
    void sharedByAll() throws Exception {
        MessageConsumer first = share(one, topic);
        MessageConsumer second = share(other, topic);
        publish(one, topic, "one", "two", "three");
        expect(second, "one");
        expect(first, "two", "three");
        expectNothing(second);
    }

    @Test
    @DisplayName("Several consumers of one client share it.")
    void sharedInOneClient() throws Exception {
        MessageConsumer first = share(client, topic);
        MessageConsumer second = share(client, topic);
        publish(one, topic, "one", "two");
        expect(first, "one");
        expect(second, "two");
    }

    @Test
    @DisplayName("A client's shared subscription and the global one of the same name are two.")
    void scopesAreApart() throws Exception {
        MessageConsumer scoped = share(client, topic);
        MessageConsumer global = share(one, topic);
        publish(one, topic, "one");
        expect(scoped, "one");
        expect(global, "one");
    }

    @Test
    @DisplayName("It outlives a consumer as long as there is another, with what was prefetched.")
    void outlivesAConsumer() throws Exception {
        Connection prefetching = connect();
        share(prefetching, topic);
        MessageConsumer second = share(other, topic);
        publish(other, topic, "one", "two");
        prefetching.close();
        expect(second, "one", "two");
    }

    @Test
    @DisplayName("With its last consumer it is gone, and what it was owed with it.")
    void endsWithTheLast() throws Exception {
        share(one, topic).close();
        publish(one, topic, "one");
        expectNothing(share(one, topic));
    }

    @Test
    @DisplayName("It ends with the session of its last consumer too.")
    void endsWithTheSession() throws Exception {
        Session session = auto(one);
        session.createSharedConsumer(topic, name("s"));
        session.close();
        publish(one, topic, "one");
        expectNothing(share(one, topic));
    }

    @Test
    @DisplayName("It doesn't survive a restart of the gateway.")
    void doesNotSurvive() throws Exception {
        Gateway gateway = ownGateway();
        Connection connection = connectTo(gateway, null);
        share(connection, topic);
        publish(connection, topic, "one");
        gateway.restart();
        expectNothing(share(connectTo(gateway, null), topic));
    }

    @Test
    @DisplayName("Another topic is refused while others consume it.")
    void otherTopicRefused() throws Exception {
        MessageConsumer consumer = share(one, topic);
        Session session = auto(other);
        Topic elsewhere = session.createTopic(name("that"));
        expectRefused("amqp:resource-locked", () -> session.createSharedConsumer(elsewhere, name("s")));
        publish(one, topic, "one");
        expect(consumer, "one");
    }

    @Test
    @DisplayName("It can't be unsubscribed: unsubscribe is for durable ones.")
    void notUnsubscribed() throws Exception {
        share(one, topic);
        Session session = auto(other);
        assertThrows(InvalidDestinationException.class, () -> session.unsubscribe(name("s")));
    }
}
