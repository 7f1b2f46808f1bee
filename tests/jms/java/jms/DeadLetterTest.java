package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import java.util.Date;
import java.util.Enumeration;
import org.apache.qpid.jms.message.JmsMessage;
import org.apache.qpid.proton.amqp.UnsignedInteger;
import org.apache.qpid.proton.amqp.UnsignedLong;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** What a subscription gives up lies in a queue of its own, with the story of how it came there. */
@ParameterizedClass
@EnumSource(Kept.class)
class DeadLetterTest extends KeptClient {
    private static final int ATTEMPTS = 10;

    private static Object said(Message message, String annotation) {
        return ((JmsMessage) message).getFacade().getTracingAnnotation("x-opt-dead-letter-" + annotation);
    }

    /** Where the gateway says that they go. */
    private Queue deadLetters(Session session, String clientId) throws JMSException {
        String id = kept.id(clientId, place);
        String said = (String) managed(session, "subscription", id).get("dead_letters");
        assertTrue(said.startsWith("DLQ.") && said.endsWith(id), said);
        return session.createQueue(said);
    }

    private MessageConsumer deadLetters() throws JMSException {
        Session session = auto(connection);
        return session.createConsumer(deadLetters(session, name("c")));
    }

    /** Fail at the next message as often as it is tried. */
    private static void failAt(MessageConsumer consumer, String text) throws JMSException {
        for (int count = 1; count <= ATTEMPTS; count++) {
            Message message = next(consumer);
            assertEquals(text, message.getBody(String.class));
            assertEquals(count, message.getIntProperty("JMSXDeliveryCount"));
            settle(message, MODIFIED);
        }
    }

    @Test
    @DisplayName("After ten failed attempts a message comes no more, and lies in the dead letters.")
    void tenAttempts() throws Exception {
        given("poison", "good");
        reconnect(NO_PREFETCH);
        MessageConsumer consumer = receivingIn(INDIVIDUAL);
        failAt(consumer, "poison");
        expectCounted(consumer, "good", 1);
        expectNothing(consumer);
        Message dead = next(deadLetters());
        assertEquals("poison", dead.getBody(String.class));
        assertEquals("exhausted", said(dead, "reason"));
        assertEquals(UnsignedInteger.valueOf(ATTEMPTS), said(dead, "attempts"));
    }

    @Test
    @DisplayName("Attempts count over closed sessions, connections and a kill of the gateway.")
    void attemptsAreKept() throws Exception {
        Gateway gateway = ownGateway();
        // What is under way when the gateway dies counts, too: so nothing is, by prefetch or by chance.
        String uri = uri(gateway, NO_PREFETCH);
        connection = open(uri, "c");
        given("poison", "good");
        for (int count = 1; count <= ATTEMPTS; count++) {
            expectCounted(receivingIn(Session.CLIENT_ACKNOWLEDGE), "poison", count);
            own.close();
            publish(connection, auto(connection).createTopic("other"), "accepted after all before");
            if (count % 4 == 0) {
                connection.close();
                gateway.crash();
                connection = open(uri, "c");
            }
        }
        expectCounted(again(), "good", 1);
        gateway.crash();  // perhaps before the copy was kept: then it is kept now, though nobody consumes
        Session session = auto(connectTo(gateway, null));
        MessageConsumer dead = session.createConsumer(deadLetters(session, "c"));
        expectCounted(dead, "poison", 1);
        expectNothing(dead);
    }

    @ParameterizedTest
    @CsvSource({"2, rejected", "5, undeliverable"})
    @DisplayName("What a consumer rejects, or says that it can't be delivered here, lies there at once.")
    void refused(int outcome, String reason) throws Exception {
        long before = System.currentTimeMillis();
        given("bad", "good");
        MessageConsumer consumer = receivingIn(INDIVIDUAL);
        settle(next(consumer), outcome);
        expect(consumer, "good");
        Message dead = next(deadLetters());
        long after = System.currentTimeMillis();
        assertEquals("bad", dead.getBody(String.class));
        assertEquals(reason, said(dead, "reason"));
        assertEquals(kept.id(name("c"), place), said(dead, "subscription"));
        assertEquals(kept.word(place), said(dead, "topic"));
        assertTrue(((UnsignedLong) said(dead, "sequence")).longValue() >= 0);
        assertEquals(UnsignedInteger.ONE, said(dead, "attempts"));
        long at = ((Date) said(dead, "at")).getTime();
        assertTrue(before <= at && at <= after, () -> "at " + at);
    }

    @Test
    @DisplayName("Its headers and properties are those that it was sent with.")
    void unchanged() throws Exception {
        given();
        Session session = auto(connection);
        Message sent = session.createTextMessage("bad");
        sent.setJMSType("type");
        sent.setJMSCorrelationID("correlation");
        sent.setStringProperty("word", "value");
        sent.setStringProperty("JMSXGroupID", "group");
        session.createProducer(place).send(sent);
        settle(next(receivingIn(INDIVIDUAL)), REJECTED);
        Message dead = next(deadLetters());
        assertEquals(sent.getJMSMessageID(), dead.getJMSMessageID());
        assertEquals(sent.getJMSTimestamp(), dead.getJMSTimestamp());
        assertEquals(place, dead.getJMSDestination());
        assertEquals("type", dead.getJMSType());
        assertEquals("correlation", dead.getJMSCorrelationID());
        assertEquals("value", dead.getStringProperty("word"));
        assertEquals("group", dead.getStringProperty("JMSXGroupID"));
        assertEquals(1, dead.getIntProperty("JMSXDeliveryCount"));
    }

    @Test
    @DisplayName("What the client gives up itself lies there, too.")
    void clientGivesUp() throws Exception {
        given("bad", "good");
        reconnect("jms.redeliveryPolicy.maxRedeliveries=1");
        for (int count = 1; count <= 2; count++) {
            expectCounted(receivingIn(Session.CLIENT_ACKNOWLEDGE), "bad", count);
            own.close();
        }
        expect(again(), "good");
        Message dead = next(deadLetters());
        assertEquals("bad", dead.getBody(String.class));
        assertEquals("undeliverable", said(dead, "reason"));
    }

    @Test
    @DisplayName("Dead letters can be looked at, and taken away like messages of any queue.")
    void likeAnyQueue() throws Exception {
        given("one", "two");
        MessageConsumer consumer = receivingIn(INDIVIDUAL);
        settle(next(consumer), REJECTED);
        settle(next(consumer), REJECTED);
        MessageConsumer dead = deadLetters();
        expect(dead, "one");
        dead.close();
        Session session = auto(connection);
        QueueBrowser browser = session.createBrowser(deadLetters(session, name("c")));
        Enumeration<?> seen = browser.getEnumeration();
        while (seen.hasMoreElements()) {
            assertEquals("two", ((Message) seen.nextElement()).getBody(String.class));
        }
        browser.close();
    }

    @Test
    @DisplayName("A dead letter that is rejected is done with: there are no dead letters of dead letters.")
    void onlyOnce() throws Exception {
        given("bad");
        settle(next(receivingIn(INDIVIDUAL)), REJECTED);
        Session session = session(connection, INDIVIDUAL);
        Queue first = deadLetters(session, name("c"));
        settle(next(session.createConsumer(first)), REJECTED);
        session.close();
        expectNothing(deadLetters());
        Connection other = connect();
        String second = "DLQ.queue/" + first.getQueueName().replace("/", "%2F");
        expectNothing(auto(other).createConsumer(auto(other).createQueue(second)));
    }
}
