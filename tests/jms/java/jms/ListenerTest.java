package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageListener;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Messages that come by themselves. */
class ListenerTest extends Client {
    private static MessageListener into(BlockingQueue<String> queue) {
        return message -> {
            try {
                queue.add(message.getBody(String.class));
            } catch (JMSException error) {
                queue.add(error.toString());
            }
        };
    }

    private static void expectHeard(BlockingQueue<String> queue, String... texts) throws Exception {
        for (String text : texts) {
            assertEquals(text, queue.poll(PATIENCE, TimeUnit.MILLISECONDS));
        }
    }

    @Test
    @DisplayName("The listeners of one session are never called at the same time.")
    void oneAtATime() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Topic topic = session.createTopic(name("one"));
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
        Connection connection = connect();
        Topic topic = auto(connection).createTopic(name("stop"));
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        auto(connection).createConsumer(topic).setMessageListener(into(heard));
        connection.stop();
        publish(connect(), topic, "one", "two");
        assertNull(heard.poll(SILENCE, TimeUnit.MILLISECONDS));
        connection.start();
        expectHeard(heard, "one", "two");
    }

    @Test
    @DisplayName("A listener given later hears what has come before it, in order.")
    void listenerGivenLater() throws Exception {
        Connection connection = connect();
        Topic topic = auto(connection).createTopic(name("later"));
        MessageConsumer consumer = auto(connection).createConsumer(topic);
        publish(connection, topic, "one", "two");
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        consumer.setMessageListener(into(heard));
        publish(connection, topic, "three");
        expectHeard(heard, "one", "two", "three");
    }

    @Test
    @DisplayName("A listener may send: the answer to each message comes in order.")
    void listenerThatSends() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Topic topic = session.createTopic(name("questions"));
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
        Connection connection = connect();
        Session session = auto(connection);
        Topic topic = session.createTopic(name("pool"));
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        session.setMessageListener(into(heard));
        connection.createConnectionConsumer(topic, null, () -> new jakarta.jms.ServerSession() {
            @Override
            public Session getSession() {
                return session;
            }

            @Override
            public void start() {
                session.run();
            }
        }, 10);
        publish(connect(), topic, "one", "two");
        expectHeard(heard, "one", "two");
    }
}
