package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Ten thousand prefetched messages come again after every kind of end, in order, counted truly. */
class TenThousandTest extends Client {
    private static final int COUNT = 10_000;
    private static final int SEEN = 100;
    private static final String PREFETCH = "jms.prefetchPolicy.all=10000";

    /** The subscription with all its messages on the way to the client, the first hundred seen. */
    private Topic given(Connection connection, Session session) throws Exception {
        Topic topic = session.createTopic(name("many"));
        MessageConsumer consumer = session.createDurableConsumer(topic, "s");
        publishMany(connection, topic, COUNT);
        for (int i = 0; i < SEEN; i++) {
            expect(consumer, Integer.toString(i));
        }
        return topic;
    }

    private interface Count {
        int of(int message);
    }

    private static void expectAll(Connection connection, Topic topic, Count count) throws Exception {
        MessageConsumer consumer = durable(connection, topic);
        for (int i = 0; i < COUNT; i++) {
            Message message = next(consumer);
            assertEquals(Integer.toString(i), message.getBody(String.class));
            assertEquals(count.of(i), message.getIntProperty("JMSXDeliveryCount"), "message " + i);
            assertEquals(count.of(i) > 1, message.getJMSRedelivered(), "message " + i);
        }
        expectNothing(consumer);
    }

    @Test
    @DisplayName("After a session's close: what was seen counts two, what wasn't counts one.")
    void sessionClosed() throws Exception {
        Connection connection = connectWith(PREFETCH, name("c"));
        Session session = session(connection, Session.CLIENT_ACKNOWLEDGE);
        Topic topic = given(connection, session);
        session.close();
        expectAll(connection, topic, i -> i < SEEN ? 2 : 1);
    }

    @Test
    @DisplayName("After a connection's close: what was seen counts two, what wasn't counts one.")
    void connectionClosed() throws Exception {
        Connection connection = connectWith(PREFETCH, name("c"));
        Topic topic = given(connection, session(connection, Session.CLIENT_ACKNOWLEDGE));
        connection.close();
        expectAll(connectWith(PREFETCH, name("c")), topic, i -> i < SEEN ? 2 : 1);
    }

    @Test
    @DisplayName("After a cut wire nobody said what was seen: all come again, in order.")
    void wireCut() throws Exception {
        try (Wire wire = new Wire(Gateway.SHARED)) {
            Connection connection = open(wire.uri(PREFETCH), name("c"));
            Topic topic = given(connection, session(connection, Session.CLIENT_ACKNOWLEDGE));
            wire.cut();
            Connection again = open(failover(Gateway.SHARED) + "&" + PREFETCH, name("c"));
            expectAll(again, topic, i -> 1);
        }
    }

    @Test
    @DisplayName("After the gateway's death all come again, in order; what was seen is marked.")
    void gatewayKilled() throws Exception {
        Gateway gateway = ownGateway();
        Connection connection = open(uri(gateway, PREFETCH), "c");
        Topic topic = given(connection, session(connection, Session.CLIENT_ACKNOWLEDGE));
        gateway.crash();
        MessageConsumer consumer =
                durable(open(uri(gateway, PREFETCH), "c"), topic);
        boolean marked = true;
        for (int i = 0; i < COUNT; i++) {
            Message message = next(consumer);
            assertEquals(Integer.toString(i), message.getBody(String.class));
            if (i < SEEN) {
                assertTrue(message.getJMSRedelivered(), "message " + i);
            }
            // What may have been sent is a beginning of the whole; nothing behind it is marked.
            assertFalse(message.getJMSRedelivered() && !marked, "message " + i);
            marked = message.getJMSRedelivered();
            assertEquals(marked ? 2 : 1, message.getIntProperty("JMSXDeliveryCount"));
        }
        expectNothing(consumer);
    }

    @Test
    @DisplayName("After an orderly restart all come again, in order; what was seen is marked.")
    void gatewayRestarted() throws Exception {
        Gateway gateway = ownGateway();
        Connection connection = open(uri(gateway, PREFETCH), "c");
        Topic topic = given(connection, session(connection, Session.CLIENT_ACKNOWLEDGE));
        connection.close();
        gateway.restart();
        expectAll(open(uri(gateway, PREFETCH), "c"), topic, i -> i < SEEN ? 2 : 1);
    }
}
