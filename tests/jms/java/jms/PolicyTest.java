package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.ResourceAllocationException;
import jakarta.jms.Session;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** What an operator says of queues in a file of policies, as their clients see it. */
class PolicyTest extends Client {
    private static Gateway gateway;

    private Connection connection;
    private Session session;

    @BeforeAll
    static void launch() throws Exception {
        gateway = Gateway.launchRuled();
    }

    @AfterAll
    static void end() throws Exception {
        gateway.end();
    }

    @BeforeEach
    void connectTheClient() throws Exception {
        connection = connectTo(gateway, null);
        session = auto(connection);
    }

    /** A queue of which a line of the file speaks. */
    private Queue queue(String rule) throws Exception {
        return session.createQueue(name(rule));
    }

    private MessageConsumer deadLetters(Queue queue) throws Exception {
        Session own = auto(open(uri(gateway, "jms.localMessageExpiry=false"), null));
        return own.createConsumer(own.createQueue("DLQ.queue/" + queue.getQueueName()));
    }

    @Test
    @DisplayName("A consumer too many is a ResourceAllocationException, until one has gone.")
    void exclusive() throws Exception {
        Queue queue = queue("alone");
        MessageConsumer first = session.createConsumer(queue);
        Session other = auto(connectTo(gateway, null));
        assertThrows(ResourceAllocationException.class, () -> other.createConsumer(queue));
        publish(connection, queue, "one");
        expect(first, "one");
        first.close();
        publish(connection, queue, "two");
        expect(other.createConsumer(queue), "two");
    }

    @Test
    @DisplayName("One of the consumers gets all; when it goes, the next one takes over.")
    void singleActive() throws Exception {
        Queue queue = queue("active");
        Session active = session(connection, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer first = active.createConsumer(queue);
        MessageConsumer second = auto(connectTo(gateway, null)).createConsumer(queue);
        publish(connection, queue, "one", "two");
        next(first).acknowledge();
        expect(first, "two");
        expectNothing(second);
        active.close();
        expectCounted(second, "two", 2);
        publish(connection, queue, "three");
        expect(second, "three");
    }

    @Test
    @DisplayName("Two attempts, and half a second between them.")
    void fewAttempts() throws Exception {
        Queue queue = queue("twice");
        MessageConsumer consumer = session(connection, INDIVIDUAL).createConsumer(queue);
        publish(connection, queue, "one");
        long before = System.currentTimeMillis();
        settle(next(consumer), MODIFIED);
        Message again = next(consumer);
        assertTrue(System.currentTimeMillis() >= before + 500);
        assertEquals(2, again.getIntProperty("JMSXDeliveryCount"));
        settle(again, MODIFIED);
        expect(deadLetters(queue), "one");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("What is held longer than the lock goes to another consumer; what is said then is late.")
    void lock() throws Exception {
        Queue queue = queue("locked");
        Session holding = session(open(uri(gateway, NO_PREFETCH), null), INDIVIDUAL);
        MessageConsumer slow = holding.createConsumer(queue);
        publish(connection, queue, "one");
        Message held = next(slow);
        MessageConsumer quick = session(connection, INDIVIDUAL).createConsumer(queue);
        Message again = next(quick);
        assertEquals("one", again.getBody(String.class));
        assertEquals(2, again.getIntProperty("JMSXDeliveryCount"));
        settle(held, ACCEPTED);
        settle(again, RELEASED);
        expectCounted(quick, "one", 2);
    }

    @Test
    @DisplayName("What has expired is among the dead letters, for a client that takes what has expired.")
    void expiredIsKept() throws Exception {
        Queue queue = queue("dated");
        MessageProducer producer = session.createProducer(queue);
        producer.setTimeToLive(100);
        producer.send(session.createTextMessage("one"));
        expect(deadLetters(queue), "one");
        expectNothing(session.createConsumer(queue));
    }

    @Test
    @DisplayName("A full queue refuses what is sent to it, and takes it again when there is room.")
    void full() throws Exception {
        Queue queue = queue("small");
        publish(connection, queue, "one", "two");
        Session own = auto(connectTo(gateway, null));
        assertThrows(ResourceAllocationException.class, () -> {
            MessageProducer producer = own.createProducer(queue);
            for (int i = 0; i < 10; i++) {
                producer.send(own.createTextMessage("too many"));
            }
        });
        MessageConsumer consumer = session.createConsumer(queue);
        expect(consumer, "one", "two");
        expectNothing(consumer);
        publish(connection, queue, "three");
        expect(consumer, "three");
    }

    @Test
    @DisplayName("A message that is sent twice comes once.")
    void duplicates() throws Exception {
        Queue queue = queue("once");
        MessageConsumer consumer = session.createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        Message message = session.createTextMessage("one");
        for (int i = 0; i < 3; i++) {
            ((org.apache.qpid.jms.message.JmsMessage) message).getFacade()
                    .setTracingAnnotation("x-opt-duplicate-id", "the same");
            producer.send(message);
        }
        publish(connection, queue, "two");
        expect(consumer, "one", "two");
        expectNothing(consumer);
    }
}
