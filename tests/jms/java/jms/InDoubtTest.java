package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Which messages are in doubt after the gateway's death, without prefetch: these come marked. */
class InDoubtTest extends Client {
    private static final int COUNT = 8;
    private static final int SEEN = 6;

    private Gateway gateway;
    private Connection connection;
    private Queue queue;

    /** A consumer in this mode, and messages for it. */
    private MessageConsumer receivingIn(int mode) throws Exception {
        gateway = ownGateway();
        connection = open(uri(gateway, NO_PREFETCH), "c");
        Session session = session(connection, mode);
        queue = session.createQueue("doubt");
        publishMany(connection, queue, COUNT);
        return session.createConsumer(queue);
    }

    /** What the client has sent before is in the log: in a moment, also on a busy machine. */
    private void settle() throws Exception {
        Thread.sleep(10 * SILENCE);
    }

    /** After a kill all from this one on come again; marked are those that were seen, no others. */
    private void expectMarkedFrom(int first) throws Exception {
        gateway.crash();
        Connection again = open(uri(gateway, NO_PREFETCH), "c");
        MessageConsumer consumer = auto(again).createConsumer(queue);
        for (int i = first; i < COUNT; i++) {
            Message message = next(consumer);
            assertEquals(Integer.toString(i), message.getBody(String.class));
            assertEquals(i < SEEN, message.getJMSRedelivered(), "message " + i);
        }
        expectNothing(consumer);
    }

    @Test
    @DisplayName("AUTO: the one that the listener has.")
    void automatic() throws Exception {
        MessageConsumer consumer = receivingIn(Session.AUTO_ACKNOWLEDGE);
        CountDownLatch seen = new CountDownLatch(SEEN);
        CountDownLatch killed = new CountDownLatch(1);
        consumer.setMessageListener(message -> {
            seen.countDown();
            if (seen.getCount() == 0) {
                await(killed);
            }
        });
        assertTrue(seen.await(PATIENCE, TimeUnit.MILLISECONDS));
        settle();
        try {
            expectMarkedFrom(SEEN - 1);
        } finally {
            killed.countDown();
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await(PATIENCE, TimeUnit.MILLISECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    @Test
    @DisplayName("CLIENT: what was received since the last acknowledgement.")
    void client() throws Exception {
        MessageConsumer consumer = receivingIn(Session.CLIENT_ACKNOWLEDGE);
        for (int i = 0; i < SEEN; i++) {
            Message message = next(consumer);
            if (i == 2) {
                message.acknowledge();
            }
        }
        settle();
        expectMarkedFrom(3);
    }

    @Test
    @DisplayName("DUPS_OK: none, when all acknowledgements of this client have gone.")
    void duplicatesOk() throws Exception {
        MessageConsumer consumer = receivingIn(Session.DUPS_OK_ACKNOWLEDGE);
        expectNumbers(consumer, 0, SEEN);
        settle();
        expectMarkedFrom(SEEN);
    }
}
