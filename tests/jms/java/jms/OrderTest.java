package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** What comes back comes back to its old place. */
class OrderTest extends Client {
    private static final int INDIVIDUAL = 101;
    private static final int RELEASED = 3;

    private Topic given(Connection connection, String... texts) throws Exception {
        Topic topic = auto(connection).createTopic(name("topic"));
        auto(connection).createDurableConsumer(topic, "s").close();
        publish(connection, topic, texts);
        return topic;
    }

    @Test
    @DisplayName("A released message comes before everything that was published after it.")
    void releasedComesFirst() throws Exception {
        Connection connection = open(uri(Gateway.SHARED, "jms.prefetchPolicy.all=0"), name("c"));
        Topic topic = given(connection, "one", "two", "three", "four");
        Session session = session(connection, INDIVIDUAL);
        MessageConsumer consumer = session.createDurableConsumer(topic, "s");
        Message one = next(consumer);
        Message two = next(consumer);
        next(consumer).acknowledge();
        for (Message message : List.of(two, one)) {
            message.setIntProperty("JMS_AMQP_ACK_TYPE", RELEASED);
            message.acknowledge();
        }
        expect(consumer, "one", "two", "four");
    }

    @Test
    @DisplayName("What a listener fails at is released and comes again, nothing is lost.")
    void listenerThatThrows() throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = given(connection, "one", "two", "three");
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        boolean[] failed = {false};
        auto(connection).createDurableConsumer(topic, "s").setMessageListener(message -> {
            try {
                String text = message.getBody(String.class);
                if (text.equals("two") && !failed[0]) {
                    failed[0] = true;
                    throw new RuntimeException("not yet");
                }
                got.add(text);
            } catch (JMSException error) {
                got.add(error.toString());
            }
        });
        List<String> all = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            String text = got.poll(PATIENCE, TimeUnit.MILLISECONDS);
            assertNotNull(text);
            all.add(text);
        }
        all.sort(null);
        assertEquals(List.of("one", "three", "two"), all);
    }

    @Test
    @DisplayName("What a closed session held comes before what it had not yet received.")
    void closedSession() throws Exception {
        Connection connection = open(uri(Gateway.SHARED, "jms.prefetchPolicy.all=3"), name("c"));
        Topic topic = given(connection, "1", "2", "3", "4", "5", "6", "7", "8");
        Session session = session(connection, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createDurableConsumer(topic, "s");
        next(consumer).acknowledge();
        expect(consumer, "2", "3");
        session.close();
        expect(auto(connection).createDurableConsumer(topic, "s"), "2", "3", "4", "5", "6", "7", "8");
    }

    @Test
    @DisplayName("Messages of one producer stay in order, persistent or not.")
    void mixedDurability() throws Exception {
        Connection connection = connect(name("c"));
        Session session = auto(connection);
        Topic topic = session.createTopic(name("mixed"));
        MessageConsumer consumer = session.createDurableConsumer(topic, "s");
        jakarta.jms.MessageProducer producer = session.createProducer(topic);
        for (int i = 0; i < 200; i++) {
            producer.setDeliveryMode(1 + i % 2);
            producer.send(session.createTextMessage(Integer.toString(i)));
        }
        for (int i = 0; i < 200; i++) {
            expect(consumer, Integer.toString(i));
        }
    }

    @Test
    @DisplayName("Two subscriptions see the messages of two producers in the same order.")
    void oneOrderForAll() throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = auto(connection).createTopic(name("same"));
        MessageConsumer one = auto(connection).createDurableConsumer(topic, "a");
        MessageConsumer other = auto(connection).createDurableConsumer(topic, "b");
        List<Thread> publishers = new ArrayList<>();
        for (String who : List.of("x", "y")) {
            Connection publisher = connect();
            Thread thread = new Thread(() -> {
                try {
                    for (int i = 0; i < 50; i++) {
                        publish(publisher, topic, who + i);
                    }
                } catch (JMSException error) {
                    throw new IllegalStateException(error);
                }
            });
            publishers.add(thread);
            thread.start();
        }
        List<String> first = new ArrayList<>();
        List<String> second = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            first.add(text(one));
            second.add(text(other));
        }
        assertEquals(first, second);
        for (Thread thread : publishers) {
            thread.join();
        }
    }
}
