package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** How credit is given and taken back: prefetch 0, 1 and 1000, receiving in every way. */
class PrefetchTest extends Client {
    private Connection connection;
    private Topic topic;

    private void prefetching(int count) throws Exception {
        connection = connectWith("jms.prefetchPolicy.all=" + count, name("c"));
        topic = auto(connection).createTopic(name("topic"));
    }

    /** A durable consumer with this prefetch, for which so many messages waited. */
    private MessageConsumer waitingFor(int prefetch, int count) throws Exception {
        prefetching(prefetch);
        durable(connection, topic).close();
        publishMany(connection, topic, count);
        return durable(connection, topic);
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 1000})
    @DisplayName("receive with a time limit gets all, in order, then null.")
    void receive(int prefetch) throws Exception {
        MessageConsumer consumer = waitingFor(prefetch, 50);
        expectNumbers(consumer, 0, 50);
        expectNothing(consumer);
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 1000})
    @DisplayName("receiveNoWait gets what waits, in order, and null only when nothing does.")
    void receiveNoWait(int prefetch) throws Exception {
        MessageConsumer consumer = waitingFor(prefetch, 20);
        for (int i = 0; i < 20; i++) {
            Message message = consumer.receiveNoWait();
            assertEquals(Integer.toString(i), message == null ? null : message.getBody(String.class));
        }
        assertNull(consumer.receiveNoWait());
        assertNull(consumer.receiveNoWait());
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 1000})
    @DisplayName("receive without a time limit waits for what comes.")
    void receiveForEver(int prefetch) throws Exception {
        MessageConsumer consumer = waitingFor(prefetch, 1);
        assertEquals("0", consumer.receive().getBody(String.class));
        assertNull(consumer.receive(50));
        publish(connection, topic, "later");
        assertEquals("later", consumer.receive().getBody(String.class));
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 1000})
    @DisplayName("A listener is told of all, in order.")
    void listener(int prefetch) throws Exception {
        Heard heard = new Heard();
        waitingFor(prefetch, 50).setMessageListener(heard);
        heard.expectNumbers(50);
        heard.expectNothing();
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 1000})
    @DisplayName("After receive has run out of time the next message still comes.")
    void afterSilence(int prefetch) throws Exception {
        prefetching(prefetch);
        MessageConsumer consumer = auto(connection).createConsumer(topic);
        for (int i = 0; i < 3; i++) {
            assertNull(consumer.receive(20));
            publish(connection, topic, "after " + i);
            expect(consumer, "after " + i);
        }
    }

    @Test
    @DisplayName("With prefetch 0 a consumer holds nothing that it didn't ask for.")
    void zeroHoldsNothing() throws Exception {
        prefetching(0);
        MessageConsumer idle = auto(connection).createSharedDurableConsumer(topic, "s");
        MessageConsumer busy = auto(connection).createSharedDurableConsumer(topic, "s");
        publish(connection, topic, "one", "two", "three");
        expect(busy, "one", "two", "three");
        assertNull(idle.receiveNoWait());
    }

    @Test
    @DisplayName("Consumers that prefetch share in turn: neither goes without.")
    void inTurn() throws Exception {
        prefetching(10);
        MessageConsumer one = auto(connection).createSharedDurableConsumer(topic, "s");
        MessageConsumer other = auto(connection).createSharedDurableConsumer(topic, "s");
        publish(connection, topic, "a", "b", "c", "d");
        String first = text(one) + text(one);
        String second = text(other) + text(other);
        assertTrue((first + second).chars().sorted().mapToObj(c -> "" + (char) c)
                .reduce("", String::concat).equals("abcd"), first + second);
    }

    @Test
    @DisplayName("More than the prefetch flows on, two thousand messages with credit for ten.")
    void creditIsRenewed() throws Exception {
        MessageConsumer consumer = waitingFor(10, 2_000);
        expectNumbers(consumer, 0, 2_000);
    }

    @Test
    @DisplayName("A stopped connection receives nothing; started again it receives what waited.")
    void stopAndStart() throws Exception {
        prefetching(1000);
        Session session = auto(connection);
        MessageConsumer consumer = session.createConsumer(topic);
        connection.stop();
        publish(connection, topic, "one");
        assertNull(consumer.receive(SILENCE));
        connection.start();
        expect(consumer, "one");
    }
}
