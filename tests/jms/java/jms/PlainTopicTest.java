package jms;

import static org.junit.jupiter.api.Assertions.assertNull;

import jakarta.jms.Connection;
import jakarta.jms.MessageConsumer;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Consumers that share nothing and are remembered by nobody. */
class PlainTopicTest extends OneClient {
    @Test
    @DisplayName("A consumer receives what is published after it came, in order.")
    void receivesInOrder() throws Exception {
        MessageConsumer consumer = session.createConsumer(topic);
        publish(connection, topic, "one", "two", "three");
        expect(consumer, "one", "two", "three");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("A consumer does not receive what was published before it came.")
    void missesWhatWasBefore() throws Exception {
        publish(connection, topic, "early");
        MessageConsumer consumer = session.createConsumer(topic);
        publish(connection, topic, "late");
        expect(consumer, "late");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("Every consumer of a topic receives every message, over all connections.")
    void everyConsumerReceivesAll() throws Exception {
        Connection other = connect();
        MessageConsumer first = session.createConsumer(topic);
        MessageConsumer second = auto(connection).createConsumer(topic);
        MessageConsumer third = auto(other).createConsumer(topic);
        publish(other, topic, "one", "two");
        expect(first, "one", "two");
        expect(second, "one", "two");
        expect(third, "one", "two");
    }

    @Test
    @DisplayName("What was left unread by a closed consumer is gone; a new one begins anew.")
    void closedConsumerLeavesNothing() throws Exception {
        MessageConsumer consumer = session.createConsumer(topic);
        publish(connection, topic, "one", "two");
        expect(consumer, "one");
        consumer.close();
        expectNothing(session.createConsumer(topic));
    }

    @Test
    @DisplayName("Topics are apart: a consumer of one sees nothing of another.")
    void topicsAreApart() throws Exception {
        MessageConsumer consumer = session.createConsumer(session.createTopic(name("this")));
        publish(connection, session.createTopic(name("that")), "elsewhere");
        expectNothing(consumer);
        assertNull(consumer.receiveNoWait());
    }
}
