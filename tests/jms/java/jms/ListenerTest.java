package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Messages that come by themselves. */
class ListenerTest extends OneClient {
    @Test
    @DisplayName("The listeners of one session are never called at the same time.")
    void oneAtATime() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        BlockingQueue<Integer> seen = new LinkedBlockingQueue<>();
        for (int i = 0; i < 3; i++) {
            session.createConsumer(topic).setMessageListener(message -> {
                seen.add(inside.incrementAndGet());
                Thread.yield();
                inside.decrementAndGet();
            });
        }
        publishMany(connection, topic, 50);
        for (int i = 0; i < 150; i++) {
            Integer many = seen.poll(PATIENCE, TimeUnit.MILLISECONDS);
            assertNotNull(many);
            assertEquals(1, many);
        }
    }

    @Test
    @DisplayName("A stopped connection calls no listener; started again it calls for what waited.")
    void stopAndStart() throws Exception {
        Heard heard = new Heard();
        auto(connection).createConsumer(topic).setMessageListener(heard);
        connection.stop();
        publish(connect(), topic, "one", "two");
        heard.expectNothing();
        connection.start();
        heard.expect("one", "two");
    }

    @Test
    @DisplayName("A listener given later hears what has come before it, in order.")
    void listenerGivenLater() throws Exception {
        MessageConsumer consumer = auto(connection).createConsumer(topic);
        publish(connection, topic, "one", "two");
        Heard heard = new Heard();
        consumer.setMessageListener(heard);
        publish(connection, topic, "three");
        heard.expect("one", "two", "three");
    }

    @Test
    @DisplayName("A listener may send: the answer to each message comes in order.")
    void listenerThatSends() throws Exception {
        Topic answers = session.createTopic(name("answers"));
        MessageConsumer consumer = auto(connection).createConsumer(answers);
        jakarta.jms.MessageProducer producer = session.createProducer(answers);
        session.createConsumer(topic).setMessageListener(message -> {
            try {
                producer.send(session.createTextMessage("re: " + message.getBody(String.class)));
            } catch (JMSException error) {
                throw new IllegalStateException(error);
            }
        });
        publish(connection, topic, "one", "two");
        expect(consumer, "re: one", "re: two");
    }

    @Test
    @DisplayName("A connection consumer of a topic hands over what comes.")
    void connectionConsumer() throws Exception {
        Heard heard = new Heard();
        session.setMessageListener(heard);
        connection.createConnectionConsumer(topic, null, pool(session), 10);
        publish(connect(), topic, "one", "two");
        heard.expect("one", "two");
    }
}
