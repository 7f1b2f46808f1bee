package jms;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
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
}
