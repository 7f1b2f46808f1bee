package jms;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** What isn't served yet is refused with a sentence, at once, and the connection goes on. */
class NotYetTest extends OneClient {
    @AfterEach
    void goesOn() throws Exception {
        MessageConsumer consumer = auto(connection).createConsumer(topic);
        publish(connection, topic, "still here");
        expect(consumer, "still here");
    }

    private static void refused(Executable call) {
        JMSException refused = assertThrows(JMSException.class, call);
        String said = refused.getMessage();
        assertTrue(said.contains("not served yet") && said.contains("amqp:not-implemented"), said);
    }

    @Test
    @DisplayName("A transacted session is refused.")
    void transactions() {
        refused(() -> connection.createSession(true, Session.SESSION_TRANSACTED));
    }

    @Test
    @DisplayName("A queue's consumer with a selector is refused, never served without it.")
    void queueSelector() {
        refused(() -> session.createConsumer(queue, "n > 1"));
    }

    @Test
    @DisplayName("A browser with a selector is refused, never served without it.")
    void browserSelector() {
        refused(() -> session.createBrowser(queue, "n > 1").getEnumeration());
    }

    @Test
    @DisplayName("A send with a delay is refused by the client: the gateway doesn't offer it.")
    void deliveryDelay() throws Exception {
        MessageProducer producer = session.createProducer(topic);
        producer.setDeliveryDelay(1_000);
        assertThrows(JMSException.class, () -> producer.send(session.createMessage()));
    }
}
