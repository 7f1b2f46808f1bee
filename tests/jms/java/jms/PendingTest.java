package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TemporaryTopic;
import jakarta.jms.Topic;
import java.util.Collections;
import org.junit.jupiter.api.Disabled;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * What a JMS client may ask for and the gateway doesn't serve yet; NotYetTest shows how it says so.
 * A part that is served loses its @Disabled here and its refusal there.
 */
class PendingTest extends OneClient {
    private static final String TRANSACTIONS = "pending: transactions are not served yet";
    private static final String BROWSERS = "pending: queue browsers are not served yet";
    private static final String TEMPORARY = "pending: temporary destinations are not served yet";
    private static final String SELECTORS = "pending: selectors are not served yet";
    private static final String NO_LOCAL = "pending: no-local is not served yet";
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
    @Disabled(BROWSERS)
    @DisplayName("A browser sees what waits in a queue and takes nothing.")
    void browser() throws Exception {
        send(session, queue, "one", 1);
        send(session, queue, "two", 2);
        QueueBrowser browser = session.createBrowser(queue);
        assertEquals(2, Collections.list(browser.getEnumeration()).size());
        expect(session.createConsumer(queue), "one", "two");
    }

    @Test
    @Disabled(TEMPORARY)
    @DisplayName("A temporary queue takes answers until it is deleted.")
    void temporaryQueue() throws Exception {
        TemporaryQueue answers = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(answers);
        Session other = auto(connect());
        send(other, answers, "answer", 1);
        expect(consumer, "answer");
        consumer.close();
        answers.delete();
        assertThrows(JMSException.class, () -> send(other, answers, "too late", 2));
    }

    @Test
    @Disabled(TEMPORARY)
    @DisplayName("A temporary topic of another connection can't be consumed.")
    void temporaryTopic() throws Exception {
        TemporaryTopic temporary = session.createTemporaryTopic();
        Session other = auto(connect());
        Topic byName = other.createTopic(temporary.getTopicName());
        assertThrows(JMSException.class, () -> other.createConsumer(byName));
    }

    @Test
    @Disabled(SELECTORS)
    @DisplayName("A consumer with a selector receives what matches, and nothing else.")
    void selector() throws Exception {
        MessageConsumer consumer = session.createConsumer(topic, "n > 1");
        send(session, topic, "one", 1);
        send(session, topic, "two", 2);
        expect(consumer, "two");
        expectNothing(consumer);
    }

    @Test
    @Disabled(SELECTORS)
    @DisplayName("A changed selector begins a durable subscription anew.")
    void changedSelector() throws Exception {
        session.createDurableConsumer(topic, "s", "n > 1", false).close();
        send(session, topic, "two", 2);
        MessageConsumer consumer = session.createDurableConsumer(topic, "s", "n > 0", false);
        send(session, topic, "one", 1);
        expect(consumer, "one");
        expectNothing(consumer);
    }

    @Test
    @Disabled(NO_LOCAL)
    @DisplayName("A no-local consumer doesn't receive what its own connection publishes.")
    void noLocal() throws Exception {
        MessageConsumer consumer = session.createConsumer(topic, null, true);
        publish(connection, topic, "own");
        publish(connect(), topic, "foreign");
        expect(consumer, "foreign");
        expectNothing(consumer);
    }

    @Test
    @Disabled(NO_LOCAL)
    @DisplayName("A durable no-local subscription keeps the rule while its consumer is away.")
    void durableNoLocal() throws Exception {
        session.createDurableConsumer(topic, "s", null, true).close();
        publish(connection, topic, "own");
        publish(connect(), topic, "foreign");
        MessageConsumer consumer = session.createDurableConsumer(topic, "s", null, true);
        expect(consumer, "foreign");
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
}
