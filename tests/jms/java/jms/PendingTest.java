package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.util.Enumeration;
import org.junit.jupiter.api.Disabled;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * What a JMS client may ask for and the gateway doesn't serve yet; NotYetTest shows how it says so.
 * A part that is served loses its @Disabled here and its refusal there.
 */
class PendingTest extends OneClient {
    private static final String TRANSACTIONS = "pending: transactions are not served yet";
    private static final String SELECTORS =
            "pending: selectors on queues and browsers are not served yet";
    private static final String PRIORITY = "pending: priority doesn't order anything yet";
    private static final String DELAY = "pending: delayed delivery is not served yet";

    private Session transacted() throws Exception {
        return connection.createSession(true, Session.SESSION_TRANSACTED);
    }

    private static void send(Session session, jakarta.jms.Destination to, String text, int n)
            throws Exception {
        Message message = session.createTextMessage(text);
        message.setIntProperty("n", n);
        session.createProducer(to).send(message);
    }

    @Test
    @Disabled(TRANSACTIONS)
    @DisplayName("What a transacted session sent arrives after commit, and never after rollback.")
    void transactedSend() throws Exception {
        MessageConsumer consumer = session.createConsumer(topic);
        Session transacted = transacted();
        send(transacted, topic, "rolled back", 1);
        transacted.rollback();
        send(transacted, topic, "committed", 2);
        expectNothing(consumer);
        transacted.commit();
        expect(consumer, "committed");
        expectNothing(consumer);
    }

    @Test
    @Disabled(TRANSACTIONS)
    @DisplayName("What a transacted session received comes again after rollback, counted.")
    void transactedReceive() throws Exception {
        Session transacted = transacted();
        MessageConsumer consumer = transacted.createDurableConsumer(topic, "s");
        publish(connection, topic, "one");
        expect(consumer, "one");
        transacted.rollback();
        Message again = next(consumer);
        assertTrue(again.getJMSRedelivered());
        assertEquals(2, again.getIntProperty("JMSXDeliveryCount"));
        transacted.commit();
        expectNothing(consumer);
    }

    @Test
    @Disabled(TRANSACTIONS)
    @DisplayName("After rollback the prefetched messages come in their old order.")
    void orderAfterRollback() throws Exception {
        Session transacted = transacted();
        MessageConsumer consumer = transacted.createDurableConsumer(topic, "s");
        publishMany(connection, topic, 1_000);
        expectNumbers(consumer, 0, 100);
        transacted.rollback();
        expectNumbers(consumer, 0, 1_000);
    }

    @Test
    @Disabled(TRANSACTIONS)
    @DisplayName("A session that closes in a transaction rolls it back.")
    void transactedClose() throws Exception {
        MessageConsumer consumer = session.createConsumer(topic);
        Session transacted = transacted();
        send(transacted, topic, "never", 1);
        transacted.close();
        expectNothing(consumer);
    }

    @Test
    @Disabled(DELAY)
    @DisplayName("A message with a delivery delay comes when its time has come, not before.")
    void deliveryDelay() throws Exception {
        MessageConsumer consumer = session.createConsumer(topic);
        MessageProducer producer = session.createProducer(topic);
        producer.setDeliveryDelay(1_000);
        producer.send(session.createTextMessage("late"));
        Message late = next(consumer);
        assertFalse(System.currentTimeMillis() < late.getJMSDeliveryTime());
    }

    @Test
    @Disabled(SELECTORS)
    @DisplayName("A queue's consumer with a selector takes what matches and leaves the rest.")
    void queueSelector() throws Exception {
        send(session, queue, "one", 1);
        send(session, queue, "two", 2);
        MessageConsumer consumer = session.createConsumer(queue, "n > 1");
        expect(consumer, "two");
        expectNothing(consumer);
        expect(session.createConsumer(queue), "one");
    }

    @Test
    @Disabled(SELECTORS)
    @DisplayName("A browser with a selector sees what matches.")
    void browserSelector() throws Exception {
        send(session, queue, "one", 1);
        send(session, queue, "two", 2);
        Enumeration<?> seen = session.createBrowser(queue, "n > 1").getEnumeration();
        assertEquals("two", ((Message) seen.nextElement()).getBody(String.class));
        assertFalse(seen.hasMoreElements());
    }

    @Test
    @Disabled(PRIORITY)
    @DisplayName("Of what waits, messages of a higher priority come first.")
    void priorityOrder() throws Exception {
        MessageProducer producer = session.createProducer(queue);
        for (int priority : new int[] {1, 9, 4}) {
            producer.setPriority(priority);
            producer.send(session.createTextMessage("priority " + priority));
        }
        expect(session.createConsumer(queue), "priority 9", "priority 4", "priority 1");
    }
}
