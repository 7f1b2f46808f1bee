package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** A failover URI over the gateway's restart: nothing is lost, and nobody has to do anything. */
class FailoverTest extends Client {
    private static final int COUNT = 300;

    private static Set<String> all() {
        return IntStream.range(0, COUNT)
                .mapToObj(Integer::toString)
                .collect(Collectors.toCollection(LinkedHashSet::new));
    }

    /** Publish all one by one; `half` happens in the middle of it. */
    private static Thread publishing(
            Connection connection, Topic topic, Runnable half, AtomicReference<Exception> failure) {
        Thread thread = new Thread(() -> {
            try {
                Session session = auto(connection);
                MessageProducer producer = session.createProducer(topic);
                for (int i = 0; i < COUNT; i++) {
                    if (i == COUNT / 2) {
                        half.run();
                    }
                    producer.send(session.createTextMessage(Integer.toString(i)));
                }
            } catch (JMSException | RuntimeException error) {
                failure.set(error);
            }
        });
        thread.start();
        return thread;
    }

    private interface Harm {
        void happen() throws Exception;
    }

    private static Runnable aside(Harm harm) {
        return () -> new Thread(() -> {
            try {
                harm.happen();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }).start();
    }

    private void listenedOver(Harm harm, Gateway gateway) throws Exception {
        Connection subscriber = open(failover(gateway), "c");
        Connection publisher = open(failover(gateway), null);
        Topic topic = auto(publisher).createTopic("t");
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        auto(subscriber).createDurableConsumer(topic, "s").setMessageListener(message -> {
            try {
                got.add(message.getBody(String.class));
            } catch (JMSException error) {
                got.add(error.toString());
            }
        });
        AtomicReference<Exception> failure = new AtomicReference<>();
        publishing(publisher, topic, aside(harm), failure).join();
        assertEquals(null, failure.get());
        Set<String> missing = all();
        while (!missing.isEmpty()) {
            String text = got.poll(PATIENCE, TimeUnit.MILLISECONDS);
            assertTrue(text != null, () -> "never came: " + missing);
            missing.remove(text);
        }
    }

    @Test
    @DisplayName("A durable listener gets all that is published before, over and after a restart.")
    void listenerOverRestart() throws Exception {
        Gateway gateway = ownGateway();
        listenedOver(gateway::restart, gateway);
    }

    @Test
    @DisplayName("A durable listener gets all that is published before, over and after a kill.")
    void listenerOverKill() throws Exception {
        Gateway gateway = ownGateway();
        listenedOver(() -> {
            gateway.kill();
            gateway.start();
        }, gateway);
    }

    @Test
    @DisplayName("A receive that waits while the gateway restarts gets what is published after.")
    void receiveOverRestart() throws Exception {
        Gateway gateway = ownGateway();
        Connection subscriber = open(failover(gateway), "c");
        Topic topic = auto(subscriber).createTopic("t");
        MessageConsumer consumer = auto(subscriber).createDurableConsumer(topic, "s");
        gateway.restart();
        publish(open(failover(gateway), null), topic, "after");
        expect(consumer, "after");
    }

    @Test
    @DisplayName("Shared consumers on failover URIs get all between them over a kill.")
    void sharedOverKill() throws Exception {
        Gateway gateway = ownGateway();
        Connection publisher = open(failover(gateway), null);
        Topic topic = auto(publisher).createTopic("t");
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        for (int i = 0; i < 3; i++) {
            Connection connection = open(failover(gateway), null);
            auto(connection).createSharedDurableConsumer(topic, "s").setMessageListener(message -> {
                try {
                    got.add(message.getBody(String.class));
                } catch (JMSException error) {
                    got.add(error.toString());
                }
            });
        }
        AtomicReference<Exception> failure = new AtomicReference<>();
        publishing(publisher, topic, aside(() -> {
            gateway.kill();
            gateway.start();
        }), failure).join();
        assertEquals(null, failure.get());
        Set<String> missing = all();
        while (!missing.isEmpty()) {
            String text = got.poll(PATIENCE, TimeUnit.MILLISECONDS);
            assertTrue(text != null, () -> "never came: " + missing);
            missing.remove(text);
        }
    }

    @Test
    @DisplayName("What was received and not acknowledged before a kill comes again, marked so.")
    void unacknowledgedOverKill() throws Exception {
        Gateway gateway = ownGateway();
        Connection connection = open(uri(gateway, ""), "c");
        Topic topic = auto(connection).createTopic("t");
        MessageConsumer consumer =
                session(connection, Session.CLIENT_ACKNOWLEDGE).createDurableConsumer(topic, "s");
        publish(connection, topic, "one");
        expect(consumer, "one");
        gateway.kill();
        gateway.start();
        Message again = next(auto(open(uri(gateway, ""), "c")).createDurableConsumer(topic, "s"));
        assertEquals("one", again.getBody(String.class));
        assertTrue(again.getJMSRedelivered());
        assertEquals(2, again.getIntProperty("JMSXDeliveryCount"));
    }
}
