package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** How credit is given and taken back: prefetch 0, 1 and 1000, receiving in every way. */
class PrefetchTest extends Client {
    private Connection prefetching(int count) throws Exception {
        return open(uri(Gateway.SHARED, "jms.prefetchPolicy.all=" + count), name("c"));
    }

    private Topic given(Connection connection, int count) throws Exception {
        Topic topic = auto(connection).createTopic(name("topic"));
        auto(connection).createDurableConsumer(topic, "s").close();
        publishMany(connection, topic, count);
        return topic;
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 1000})
    @DisplayName("receive with a time limit gets all, in order, then null.")
    void receive(int prefetch) throws Exception {
        Connection connection = prefetching(prefetch);
        Topic topic = given(connection, 50);
        MessageConsumer consumer = auto(connection).createDurableConsumer(topic, "s");
        for (int i = 0; i < 50; i++) {
            expect(consumer, Integer.toString(i));
        }
        expectNothing(consumer);
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 1000})
    @DisplayName("receiveNoWait gets what waits, in order, and null only when nothing does.")
    void receiveNoWait(int prefetch) throws Exception {
        Connection connection = prefetching(prefetch);
        Topic topic = given(connection, 20);
        MessageConsumer consumer = auto(connection).createDurableConsumer(topic, "s");
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
        Connection connection = prefetching(prefetch);
        Topic topic = given(connection, 1);
        MessageConsumer consumer = auto(connection).createDurableConsumer(topic, "s");
        assertEquals("0", consumer.receive().getBody(String.class));
        assertNull(consumer.receive(50));
        publish(connection, topic, "later");
        assertEquals("later", consumer.receive().getBody(String.class));
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 1000})
    @DisplayName("A listener is told of all, in order.")
    void listener(int prefetch) throws Exception {
        Connection connection = prefetching(prefetch);
        Topic topic = given(connection, 50);
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        auto(connection).createDurableConsumer(topic, "s").setMessageListener(m -> {
            try {
                got.add(m.getBody(String.class));
            } catch (jakarta.jms.JMSException error) {
                got.add(error.toString());
            }
        });
        for (int i = 0; i < 50; i++) {
            assertEquals(Integer.toString(i), got.poll(PATIENCE, TimeUnit.MILLISECONDS));
        }
        assertNull(got.poll(SILENCE, TimeUnit.MILLISECONDS));
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 1000})
    @DisplayName("After receive has run out of time the next message still comes.")
    void afterSilence(int prefetch) throws Exception {
        Connection connection = prefetching(prefetch);
        Topic topic = auto(connection).createTopic(name("silence"));
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
        Connection connection = prefetching(0);
        Topic topic = auto(connection).createTopic(name("zero"));
        MessageConsumer idle = auto(connection).createSharedDurableConsumer(topic, "s");
        MessageConsumer busy = auto(connection).createSharedDurableConsumer(topic, "s");
        publish(connection, topic, "one", "two", "three");
        expect(busy, "one", "two", "three");
        assertNull(idle.receiveNoWait());
    }

    @Test
    @DisplayName("Consumers that prefetch share in turn: neither goes without.")
    void inTurn() throws Exception {
        Connection connection = prefetching(10);
        Topic topic = auto(connection).createTopic(name("turn"));
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
        Connection connection = prefetching(10);
        Topic topic = given(connection, 2_000);
        MessageConsumer consumer = auto(connection).createDurableConsumer(topic, "s");
        for (int i = 0; i < 2_000; i++) {
            expect(consumer, Integer.toString(i));
        }
    }

    @Test
    @DisplayName("A stopped connection receives nothing; started again it receives what waited.")
    void stopAndStart() throws Exception {
        Connection connection = prefetching(1000);
        Topic topic = auto(connection).createTopic(name("stop"));
        Session session = auto(connection);
        MessageConsumer consumer = session.createConsumer(topic);
        connection.stop();
        publish(connection, topic, "one");
        assertNull(consumer.receive(SILENCE));
        connection.start();
        expect(consumer, "one");
    }
}
