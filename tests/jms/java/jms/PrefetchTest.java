package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** How credit is given and taken back: prefetch 0, 1 and 1000, receiving in every way. */
@ParameterizedClass
@EnumSource(Kept.class)
class PrefetchTest extends KeptClient {
    private void prefetching(int count) throws Exception {
        reconnect("jms.prefetchPolicy.all=" + count);
    }

    /** A consumer with this prefetch, for which so many messages waited. */
    private MessageConsumer waitingFor(int prefetch, int count) throws Exception {
        prefetching(prefetch);
        given();
        publishMany(connection, place, count);
        return again();
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
        publish(connection, place, "later");
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
        MessageConsumer consumer = again();
        for (int i = 0; i < 3; i++) {
            assertNull(consumer.receive(20));
            publish(connection, place, "after " + i);
            expect(consumer, "after " + i);
        }
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
        MessageConsumer consumer = again();
        connection.stop();
        publish(connection, place, "one");
        assertNull(consumer.receive(SILENCE));
        connection.start();
        expect(consumer, "one");
    }
}
