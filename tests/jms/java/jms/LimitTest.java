package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import jakarta.jms.MessageConsumer;
import jakarta.jms.ResourceAllocationException;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** What a connection may have at once; at a limit it is told so, and nothing else happens. */
class LimitTest extends OneClient {
    private static final int LINKS_MAX = 1_024;
    private static final int TEMPORARY_MAX = 512;

    @Test
    @DisplayName("A link too many is a ResourceAllocationException; when one has gone, another comes.")
    void links() throws Exception {
        List<MessageConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < LINKS_MAX - 1; i++) {
            consumers.add(session.createConsumer(topic));
        }
        session.createProducer(queue);
        assertThrows(ResourceAllocationException.class, () -> session.createProducer(queue));
        assertThrows(ResourceAllocationException.class, () -> session.createConsumer(topic));
        consumers.get(0).close();
        MessageConsumer last = session.createConsumer(topic);
        publish(connect(), topic, "one");
        expect(last, "one");
    }

    @Test
    @DisplayName("A temporary queue too many is a ResourceAllocationException, until one has gone.")
    void temporary() throws Exception {
        Session own = auto(connect());
        List<TemporaryQueue> queues = new ArrayList<>();
        for (int i = 0; i < TEMPORARY_MAX; i++) {
            queues.add(own.createTemporaryQueue());
        }
        assertThrows(ResourceAllocationException.class, own::createTemporaryQueue);
        queues.get(0).delete();
        publish(connection, own.createTemporaryQueue(), "one");
        assertEquals(TEMPORARY_MAX, queues.size());
    }
}
