package jms;

import static org.junit.jupiter.api.Assertions.assertNull;

import jakarta.jms.Connection;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Consumers that share nothing and are remembered by nobody. */
class PlainTopicTest extends Client {
    @Test
    @DisplayName("A consumer receives what is published after it came, in order.")
    void receivesInOrder() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Topic topic = session.createTopic(name("plain"));
        MessageConsumer consumer = session.createConsumer(topic);
        publish(connection, topic, "one", "two", "three");
        expect(consumer, "one", "two", "three");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("A consumer does not receive what was published before it came.")
    void missesWhatWasBefore() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Topic topic = session.createTopic(name("before"));
        publish(connection, topic, "early");
        MessageConsumer consumer = session.createConsumer(topic);
        publish(connection, topic, "late");
        expect(consumer, "late");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("Every consumer of a topic receives every message, over all connections.")
    void everyConsumerReceivesAll() throws Exception {
        Connection one = connect();
        Connection other = connect();
        Topic topic = auto(one).createTopic(name("all"));
        MessageConsumer first = auto(one).createConsumer(topic);
        MessageConsumer second = auto(one).createConsumer(topic);
        MessageConsumer third = auto(other).createConsumer(topic);
        publish(other, topic, "one", "two");
        expect(first, "one", "two");
        expect(second, "one", "two");
        expect(third, "one", "two");
    }

    @Test
    @DisplayName("What was left unread by a closed consumer is gone; a new one begins anew.")
    void closedConsumerLeavesNothing() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Topic topic = session.createTopic(name("closed"));
        MessageConsumer consumer = session.createConsumer(topic);
        publish(connection, topic, "one", "two");
        expect(consumer, "one");
        consumer.close();
        expectNothing(session.createConsumer(topic));
    }

    @Test
    @DisplayName("Topics are apart: a consumer of one sees nothing of another.")
    void topicsAreApart() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        MessageConsumer consumer = session.createConsumer(session.createTopic(name("this")));
        publish(connection, session.createTopic(name("that")), "elsewhere");
        expectNothing(consumer);
        assertNull(consumer.receiveNoWait());
    }
}
