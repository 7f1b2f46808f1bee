package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.JMSContext;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.stream.IntStream;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Looking into a queue without taking anything. */
class BrowserTest extends OneClient {
    /** The texts that a new enumeration of this browser shows, to its end. */
    private static List<String> shown(QueueBrowser browser) throws Exception {
        List<String> texts = new ArrayList<>();
        for (Enumeration<?> all = browser.getEnumeration(); all.hasMoreElements(); ) {
            texts.add(((Message) all.nextElement()).getBody(String.class));
        }
        return texts;
    }

    private List<String> browsed() throws Exception {
        QueueBrowser browser = session.createBrowser(queue);
        List<String> texts = shown(browser);
        browser.close();
        return texts;
    }

    private static List<String> numbers(int count) {
        return IntStream.range(0, count).mapToObj(Integer::toString).toList();
    }

    @Test
    @DisplayName("A topic's durable subscription is browsed by its id, with and without a selector.")
    void subscription() throws Exception {
        String id = "browsing-" + topic.getTopicName();
        Connection own = connect(id);
        Session theirs = auto(own);
        theirs.createDurableConsumer(topic, "s").close();
        publishMany(own, topic, 3);
        Queue it = session.createQueue("subscription://container/" + id + "/s");
        assertEquals(numbers(3), shown(session.createBrowser(it)));
        assertEquals(List.of(), shown(session.createBrowser(it, "JMSPriority > 4")));
        expect(theirs.createDurableConsumer(topic, "s"), "0", "1", "2");
        assertEquals(List.of(), shown(session.createBrowser(it)));
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 1000})
    @DisplayName("A browser sees all that waits, in order, and its enumeration ends.")
    void seesAll(int prefetch) throws Exception {
        publishMany(connection, queue, 50);
        Session own = auto(connectWith("jms.prefetchPolicy.all=" + prefetch));
        assertEquals(numbers(50), shown(own.createBrowser(queue)));
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 1000})
    @DisplayName("An empty queue shows nothing, at once, whatever is prefetched.")
    void empty(int prefetch) throws Exception {
        Session own = auto(connectWith("jms.prefetchPolicy.all=" + prefetch));
        Enumeration<?> nothing = own.createBrowser(queue).getEnumeration();
        assertFalse(nothing.hasMoreElements());
        assertThrows(NoSuchElementException.class, nothing::nextElement);
    }

    @Test
    @DisplayName("A browser sees what a consumer would get: by priority, nothing expired or delayed.")
    void asAConsumerWould() throws Exception {
        MessageProducer producer = session.createProducer(queue);
        producer.setTimeToLive(50);
        producer.send(session.createTextMessage("expired"));
        producer.setTimeToLive(0);
        producer.setDeliveryDelay(60_000);
        producer.send(session.createTextMessage("delayed"));
        producer.setDeliveryDelay(0);
        for (int priority : new int[] {1, 9, 4}) {
            producer.setPriority(priority);
            producer.send(session.createTextMessage("priority " + priority));
        }
        Thread.sleep(100);
        Session taking = auto(connectWith("jms.localMessageExpiry=false"));
        List<String> expected = List.of("priority 9", "priority 4", "priority 1");
        assertEquals(expected, shown(taking.createBrowser(queue)));
        expect(taking.createConsumer(queue), expected.toArray(String[]::new));
    }

    @Test
    @DisplayName("Browsing takes nothing and counts for nothing.")
    void takesNothing() throws Exception {
        publish(connection, queue, "one", "two");
        for (int i = 0; i < 3; i++) {
            assertEquals(List.of("one", "two"), browsed());
        }
        MessageConsumer consumer = session.createConsumer(queue);
        expectCounted(consumer, "one", 1);
        expectCounted(consumer, "two", 1);
        expectNothing(consumer);
    }

    @Test
    @DisplayName("What was taken isn't seen any more.")
    void notWhatWasTaken() throws Exception {
        publish(connection, queue, "one", "two", "three");
        Session none = auto(connectWith(NO_PREFETCH));
        expect(none.createConsumer(queue), "one");
        assertEquals(List.of("two", "three"), browsed());
    }

    @Test
    @DisplayName("What a consumer holds isn't seen; when it lets go it is, in its old place.")
    void whileAConsumerHolds() throws Exception {
        publish(connection, queue, "one", "two", "three");
        Session holding = session(connectWith(NO_PREFETCH), Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = holding.createConsumer(queue);
        expect(consumer, "one", "two");
        assertEquals(List.of("three"), browsed());
        holding.close();
        assertEquals(List.of("one", "two", "three"), browsed());
    }

    @Test
    @DisplayName("A message that came back shows how often it was delivered.")
    void countsAreShown() throws Exception {
        publish(connection, queue, "one");
        Session failing = session(connection, Session.CLIENT_ACKNOWLEDGE);
        expect(failing.createConsumer(queue), "one");
        failing.close();
        Message seen = (Message) session.createBrowser(queue).getEnumeration().nextElement();
        assertEquals(2, seen.getIntProperty("JMSXDeliveryCount"));
        assertTrue(seen.getJMSRedelivered());
        expectCounted(session.createConsumer(queue), "one", 2);
    }

    @Test
    @DisplayName("Two browsers see the same, each by itself.")
    void twoBrowsers() throws Exception {
        publish(connection, queue, "one", "two");
        Enumeration<?> first = session.createBrowser(queue).getEnumeration();
        Enumeration<?> second = auto(connect()).createBrowser(queue).getEnumeration();
        for (String text : List.of("one", "two")) {
            assertEquals(text, ((Message) first.nextElement()).getBody(String.class));
            assertEquals(text, ((Message) second.nextElement()).getBody(String.class));
        }
        assertFalse(first.hasMoreElements());
        assertFalse(second.hasMoreElements());
    }

    @Test
    @DisplayName("A browser can enumerate again, and sees what has come since.")
    void enumeratedAgain() throws Exception {
        publish(connection, queue, "one");
        QueueBrowser browser = session.createBrowser(queue);
        assertEquals(List.of("one"), shown(browser));
        publish(connection, queue, "two");
        assertEquals(List.of("one", "two"), shown(browser));
    }

    @Test
    @DisplayName("Five thousand messages are all seen, and all there for the consumer.")
    void fiveThousand() throws Exception {
        publishMany(connection, queue, 5_000);
        assertEquals(numbers(5_000), browsed());
        expectNumbers(session.createConsumer(queue), 0, 5_000);
    }

    @Test
    @DisplayName("A browser that is closed in the middle leaves all as it was.")
    void closedInTheMiddle() throws Exception {
        publishMany(connection, queue, 500);
        QueueBrowser browser = auto(connectWith("jms.prefetchPolicy.all=10")).createBrowser(queue);
        Enumeration<?> all = browser.getEnumeration();
        for (int i = 0; i < 100; i++) {
            assertEquals(Integer.toString(i), ((Message) all.nextElement()).getBody(String.class));
        }
        browser.close();
        expectNumbers(session.createConsumer(queue), 0, 500);
    }

    @Test
    @DisplayName("A waiting consumer isn't disturbed by browsers that come and go.")
    void besideAConsumer() throws Exception {
        MessageConsumer consumer = session.createConsumer(queue);
        Session browsing = auto(connect());
        for (int i = 0; i < 10; i++) {
            QueueBrowser browser = browsing.createBrowser(queue);
            browser.getEnumeration();
            publish(connection, queue, "message " + i);
            expect(consumer, "message " + i);
            browser.close();
        }
    }

    @Test
    @DisplayName("A message is seen with its headers, properties and its queue.")
    void wholeMessages() throws Exception {
        Message sent = session.createTextMessage("one");
        sent.setIntProperty("n", 7);
        sent.setJMSType("type");
        session.createProducer(queue).send(sent);
        Message seen = (Message) session.createBrowser(queue).getEnumeration().nextElement();
        assertEquals(sent.getJMSMessageID(), seen.getJMSMessageID());
        assertEquals(7, seen.getIntProperty("n"));
        assertEquals("type", seen.getJMSType());
        assertEquals(queue, seen.getJMSDestination());
    }

    @Test
    @DisplayName("After the gateway's death a browser sees what waited before it.")
    void afterAKill() throws Exception {
        Gateway gateway = ownGateway();
        publish(connectTo(gateway, null), queue, "one", "two");
        gateway.crash();
        Session after = auto(connectTo(gateway, null));
        assertEquals(List.of("one", "two"), shown(after.createBrowser(queue)));
    }

    @Test
    @DisplayName("A temporary queue can be browsed by its connection.")
    void temporaryQueue() throws Exception {
        TemporaryQueue temporary = session.createTemporaryQueue();
        publish(connect(), temporary, "one", "two");
        assertEquals(List.of("one", "two"), shown(session.createBrowser(temporary)));
        expect(session.createConsumer(temporary), "one", "two");
    }

    @Test
    @DisplayName("The simplified API browses too.")
    void context() throws Exception {
        publish(connection, queue, "one", "two");
        try (JMSContext context = new JmsConnectionFactory(uri(Gateway.SHARED, "")).createContext()) {
            assertEquals(2, Collections.list(context.createBrowser(queue).getEnumeration()).size());
        }
    }

    @Test
    @DisplayName("In a session of any acknowledge mode browsing takes nothing.")
    void anyMode() throws Exception {
        publish(connection, queue, "one");
        Connection other = connect();
        for (int mode : new int[] {Session.CLIENT_ACKNOWLEDGE, INDIVIDUAL, NO_ACKNOWLEDGE}) {
            assertEquals(List.of("one"), shown(session(other, mode).createBrowser(queue)));
        }
        other.close();
        expectCounted(session.createConsumer(queue), "one", 1);
    }
}
