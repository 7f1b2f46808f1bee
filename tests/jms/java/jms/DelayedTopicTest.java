package jms;

import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.JMSContext;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.TemporaryQueue;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Whom a delayed message waits for, and how it may be sent. */
class DelayedTopicTest extends OneClient {
    private static final long DELAY = 1_000;

    private Message delayed(String text) throws Exception {
        MessageProducer producer = session.createProducer(topic);
        producer.setDeliveryDelay(DELAY);
        Message message = session.createTextMessage(text);
        producer.send(message);
        return message;
    }

    @Test
    @DisplayName("It is for those that are there when it is sent, not for who comes while it waits.")
    void presentWhenSent() throws Exception {
        MessageConsumer there = auto(connection).createConsumer(topic);
        auto(connection).createDurableConsumer(topic, "away").close();
        delayed("late");
        MessageConsumer after = auto(connection).createConsumer(topic);
        MessageConsumer durableAfter = auto(connection).createDurableConsumer(topic, "after");
        expect(there, "late");
        expect(auto(connection).createDurableConsumer(topic, "away"), "late");
        expectNothing(after);
        expectNothing(durableAfter);
    }

    @Test
    @DisplayName("A selector chooses among delayed messages, too.")
    void selector() throws Exception {
        MessageConsumer none = session.createConsumer(topic, "JMSType = 'other'");
        MessageConsumer all = session.createConsumer(topic, "JMSType IS NULL");
        delayed("late");
        expect(all, "late");
        expectNothing(none);
    }

    @Test
    @DisplayName("A producer without a destination may delay, and so may one of the simplified API.")
    void otherProducers() throws Exception {
        MessageConsumer consumer = session.createConsumer(queue);
        MessageProducer producer = session.createProducer(null);
        producer.setDeliveryDelay(DELAY);
        producer.send(queue, session.createTextMessage("one"));
        long sent = System.currentTimeMillis();
        try (JMSContext context = new JmsConnectionFactory(uri(Gateway.SHARED, "")).createContext()) {
            context.createProducer().setDeliveryDelay(2 * DELAY).send(queue, "two");
        }
        expect(consumer, "one");
        expect(consumer, "two");
        assertTrue(System.currentTimeMillis() >= sent + 2 * DELAY);
    }

    @Test
    @DisplayName("A temporary queue keeps it until its time.")
    void temporary() throws Exception {
        TemporaryQueue own = session.createTemporaryQueue();
        MessageProducer producer = session.createProducer(own);
        producer.setDeliveryDelay(DELAY);
        producer.send(session.createTextMessage("late"));
        MessageConsumer consumer = session.createConsumer(own);
        assertNull(consumer.receiveNoWait());
        expect(consumer, "late");
    }
}
