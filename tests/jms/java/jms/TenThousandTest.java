package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;

/** Ten thousand prefetched messages come again after every kind of end, in order, counted truly. */
@ParameterizedClass
@EnumSource(value = Kept.class, names = {"SUBSCRIPTION", "QUEUE"})
class TenThousandTest extends KeptClient {
    private static final int COUNT = 10_000;
    private static final int SEEN = 100;
    private static final String PREFETCH = "jms.prefetchPolicy.all=10000";

    /** All messages are on the way to this client, the first hundred were seen, none acknowledged. */
    private void prefetchedBy(Connection client) throws Exception {
        connection = client;
        MessageConsumer consumer = receivingIn(Session.CLIENT_ACKNOWLEDGE);
        publishMany(connection, place, COUNT);
        expectNumbers(consumer, 0, SEEN);
    }

    private Connection prefetching(String clientId) throws Exception {
        return connectWith(PREFETCH, clientId);
    }

    private interface Count {
        int of(int message);
    }

    private void expectAll(Connection client, Count count) throws Exception {
        MessageConsumer consumer = receivingAt(client);
        for (int i = 0; i < COUNT; i++) {
            expectCounted(consumer, Integer.toString(i), count.of(i));
        }
        expectNothing(consumer);
    }

    private static int seenTwice(int message) {
        return message < SEEN ? 2 : 1;
    }

    @Test
    @DisplayName("After a session's close: what was seen counts two, what wasn't counts one.")
    void sessionClosed() throws Exception {
        prefetchedBy(prefetching(name("many")));
        own.close();
        expectAll(connection, TenThousandTest::seenTwice);
    }

    @Test
    @DisplayName("After a connection's close: what was seen counts two, what wasn't counts one.")
    void connectionClosed() throws Exception {
        prefetchedBy(prefetching(name("many")));
        connection.close();
        expectAll(prefetching(name("many")), TenThousandTest::seenTwice);
    }

    @Test
    @DisplayName("After a cut wire all come again, in order; what may have been seen is marked.")
    void wireCut() throws Exception {
        try (Wire wire = new Wire(Gateway.SHARED)) {
            prefetchedBy(open(wire.uri(PREFETCH), name("many")));
            wire.cut();
            expectMarkedBeginning(open(failover(Gateway.SHARED) + "&" + PREFETCH, name("many")));
        }
    }

    @Test
    @DisplayName("After the gateway's death all come again, in order; what was seen is marked.")
    void gatewayKilled() throws Exception {
        Gateway gateway = ownGateway();
        prefetchedBy(open(uri(gateway, PREFETCH), "c"));
        gateway.crash();
        expectMarkedBeginning(open(uri(gateway, PREFETCH), "c"));
    }

    /** All come in order; marked are those that were seen, and what else may have been sent. */
    private void expectMarkedBeginning(Connection client) throws Exception {
        MessageConsumer consumer = receivingAt(client);
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
        prefetchedBy(open(uri(gateway, PREFETCH), "c"));
        connection.close();
        gateway.restart();
        expectAll(open(uri(gateway, PREFETCH), "c"), TenThousandTest::seenTwice);
    }
}
