package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import jakarta.jms.Connection;
import jakarta.jms.InvalidSelectorException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Selectors of a queue's consumers and browsers: each takes what it selects, and leaves the rest. */
class QueueSelectorTest extends OneClient {
    /** Messages of these numbers, in this order; the number is their text, too. */
    private void send(int... numbers) throws Exception {
        MessageProducer producer = session.createProducer(queue);
        for (int n : numbers) {
            Message message = session.createTextMessage(Integer.toString(n));
            message.setIntProperty("n", n);
            producer.send(message);
        }
    }

    private MessageConsumer selecting(String selector) throws Exception {
        return auto(connection).createConsumer(queue, selector);
    }

    @Test
    @DisplayName("A consumer takes what it selects, in order, and leaves the rest.")
    void takesWhatMatches() throws Exception {
        send(1, 2, 3, 4);
        MessageConsumer consumer = selecting("n > 2");
        expect(consumer, "3", "4");
        expectNothing(consumer);
        expect(session.createConsumer(queue), "1", "2");
    }

    @Test
    @DisplayName("Two consumers share a queue by what they select, however little the other takes.")
    void shares() throws Exception {
        MessageConsumer idle = auto(connectWith(NO_PREFETCH)).createConsumer(queue, "n < 3");
        MessageConsumer busy = selecting("n >= 3");
        send(1, 3, 2, 4, 5);
        expect(busy, "3", "4", "5");
        expectNothing(busy);
        expect(idle, "1", "2");
        expectNothing(idle);
    }

    @Test
    @DisplayName("Beside a consumer that takes everything, what only that one may have goes there.")
    void besideOneWithout() throws Exception {
        MessageConsumer selecting = selecting("n > 100");
        MessageConsumer all = auto(connection).createConsumer(queue);
        send(1, 2, 3);
        expect(all, "1", "2", "3");
        expectNothing(selecting);
    }

    @Test
    @DisplayName("What a consumer gives back waits for one that selects it.")
    void givenBack() throws Exception {
        Session own = session(connection, INDIVIDUAL);
        MessageConsumer first = own.createConsumer(queue, "n = 1");
        MessageConsumer other = selecting("n = 2");
        send(1);
        Message got = next(first);
        first.close();
        settle(got, RELEASED);
        own.close();
        expectNothing(other);
        expectCounted(selecting("n = 1"), "1", 1);
    }

    @Test
    @DisplayName("A thousand that nobody selects don't stand in the way.")
    void passesMany() throws Exception {
        publishMany(connection, queue, 1_000);
        send(7);
        MessageConsumer consumer = selecting("n = 7");
        expect(consumer, "7");
        send(7);
        expect(consumer, "7");
        expectNothing(consumer);
        expectNumbers(session.createConsumer(queue), 0, 1_000);
    }

    @Test
    @DisplayName("After a kill of the gateway the rest is there.")
    void survivesKill() throws Exception {
        Gateway gateway = ownGateway();
        Connection there = connectTo(gateway, null);
        session = auto(there);
        send(1, 2, 3);
        MessageConsumer consumer = session.createConsumer(queue, "n = 2");
        expect(consumer, "2");
        consumer.close();
        gateway.crash();
        session = auto(connectTo(gateway, null));
        MessageConsumer all = session.createConsumer(queue);
        expect(all, "1", "3");
        expectNothing(all);
    }

    @Test
    @DisplayName("A listener and a connection consumer select, too.")
    void listeners() throws Exception {
        Heard heard = new Heard();
        selecting("n = 1").setMessageListener(heard);
        Session pooled = auto(connection);
        Heard pool = new Heard();
        pooled.setMessageListener(pool);
        connection.createConnectionConsumer(queue, "n = 2", pool(pooled), 10);
        send(2, 1, 3);
        heard.expect("1");
        pool.expect("2");
        expect(auto(connection).createConsumer(queue), "3");
    }

    @Test
    @DisplayName("A selector that can't be read is an InvalidSelectorException.")
    void broken() {
        assertThrows(InvalidSelectorException.class, () -> session.createConsumer(queue, "n >"));
        assertThrows(InvalidSelectorException.class, () -> session.createBrowser(queue, "n >"));
    }

    @Test
    @DisplayName("A browser shows what it selects, and takes nothing.")
    void browser() throws Exception {
        send(1, 2, 3, 4);
        QueueBrowser browser = session.createBrowser(queue, "n > 1 AND n < 4");
        assertEquals("n > 1 AND n < 4", browser.getMessageSelector());
        for (int i = 0; i < 2; i++) {
            List<String> texts = new ArrayList<>();
            for (Enumeration<?> all = browser.getEnumeration(); all.hasMoreElements(); ) {
                texts.add(((Message) all.nextElement()).getBody(String.class));
            }
            assertEquals(List.of("2", "3"), texts);
        }
        expect(session.createConsumer(queue), "1", "2", "3", "4");
    }
}
