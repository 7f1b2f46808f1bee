package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import org.junit.jupiter.api.Disabled;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * What a JMS client may ask for and the gateway doesn't serve yet; NotYetTest shows how it says so.
 * A part that is served loses its @Disabled here and its refusal there.
 */
class PendingTest extends OneClient {
    private static final String TRANSACTIONS = "pending: transactions are not served yet";

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
}
