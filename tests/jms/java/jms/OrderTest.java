package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;

import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** What comes back comes back to its old place. */
class OrderTest extends OneClient {
    private static final int RELEASED = 3;

    private Connection few;

    /** A durable consumer of another client that takes few messages at a time. */
    private MessageConsumer prefetching(int count, int mode) throws Exception {
        few = connectWith("jms.prefetchPolicy.all=" + count, name("few"));
        return session(few, mode).createDurableConsumer(topic, "s");
    }

    @Test
    @DisplayName("A released message comes before everything that was published after it.")
    void releasedComesFirst() throws Exception {
        MessageConsumer consumer = prefetching(0, INDIVIDUAL);
        publish(connection, topic, "one", "two", "three", "four");
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
        given("one", "two", "three");
        Heard heard = new Heard();
        boolean[] failed = {false};
        again().setMessageListener(message -> {
            if (!failed[0]) {
                failed[0] = true;
                throw new RuntimeException("not yet");
            }
            heard.onMessage(message);
        });
        List<String> all = heard.next(3);
        all.sort(null);
        assertEquals(List.of("one", "three", "two"), all);
    }

    @Test
    @DisplayName("What a closed session held comes before what it had not yet received.")
    void closedSession() throws Exception {
        MessageConsumer consumer = prefetching(3, Session.CLIENT_ACKNOWLEDGE);
        publish(connection, topic, "1", "2", "3", "4", "5", "6", "7", "8");
        next(consumer).acknowledge();
        expect(consumer, "2", "3");
        few.close();
        expect(durable(connect(name("few")), topic), "2", "3", "4", "5", "6", "7", "8");
    }

    @Test
    @DisplayName("Messages of one producer stay in order, persistent or not.")
    void mixedDurability() throws Exception {
        MessageConsumer consumer = session.createDurableConsumer(topic, "s");
        jakarta.jms.MessageProducer producer = session.createProducer(topic);
        for (int i = 0; i < 200; i++) {
            producer.setDeliveryMode(1 + i % 2);
            producer.send(session.createTextMessage(Integer.toString(i)));
        }
        expectNumbers(consumer, 0, 200);
    }

    @Test
    @DisplayName("Two subscriptions see the messages of two producers in the same order.")
    void oneOrderForAll() throws Exception {
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
