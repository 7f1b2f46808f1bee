package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;

import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;

/** What comes back comes back to its old place. */
@ParameterizedClass
@EnumSource(Kept.class)
class OrderTest extends KeptClient {
    /** A consumer of a client that takes few messages at a time. */
    private MessageConsumer prefetching(int count, int mode) throws Exception {
        reconnect("jms.prefetchPolicy.all=" + count);
        return receivingIn(mode);
    }

    @Test
    @DisplayName("A released message comes before everything that was published after it.")
    void releasedComesFirst() throws Exception {
        MessageConsumer consumer = prefetching(0, INDIVIDUAL);
        publish(connection, place, "one", "two", "three", "four");
        Message one = next(consumer);
        Message two = next(consumer);
        next(consumer).acknowledge();
        for (Message message : List.of(two, one)) {
            settle(message, RELEASED);
        }
        expect(consumer, "one", "two", "four");
    }

    @Test
    @DisplayName("What a listener fails at is released and comes again, nothing is lost.")
    void listenerThatThrows() throws Exception {
        given("one", "two", "three");
        Heard heard = new Heard();
        boolean[] failed = {false};
        again().setMessageListener(message -> {
            if (!failed[0]) {
                failed[0] = true;
                throw new RuntimeException("not yet");
            }
            heard.onMessage(message);
        });
        List<String> all = heard.next(3);
        all.sort(null);
        assertEquals(List.of("one", "three", "two"), all);
    }

    @Test
    @DisplayName("What a closed session held comes before what it had not yet received.")
    void closedSession() throws Exception {
        MessageConsumer consumer = prefetching(3, Session.CLIENT_ACKNOWLEDGE);
        publish(connection, place, "1", "2", "3", "4", "5", "6", "7", "8");
        next(consumer).acknowledge();
        expect(consumer, "2", "3");
        own.close();
        expect(again(), "2", "3", "4", "5", "6", "7", "8");
    }

    @Test
    @DisplayName("Messages of one producer stay in order, persistent or not.")
    void mixedDurability() throws Exception {
        MessageConsumer consumer = again();
        Session session = auto(connection);
        MessageProducer producer = session.createProducer(place);
        for (int i = 0; i < 200; i++) {
            producer.setDeliveryMode(1 + i % 2);
            producer.send(session.createTextMessage(Integer.toString(i)));
        }
        expectNumbers(consumer, 0, 200);
    }
}
