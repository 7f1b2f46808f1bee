package jms;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** All ways to send, and what the sender is told. */
class SendTest extends OneClient {
    @ParameterizedTest
    @ValueSource(ints = {DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT})
    @DisplayName("Persistent or not, what is sent arrives and says how it was sent.")
    void deliveryModes(int mode) throws Exception {
        MessageConsumer consumer = session.createConsumer(topic);
        MessageProducer producer = session.createProducer(topic);
        producer.setDeliveryMode(mode);
        producer.send(session.createTextMessage("one"));
        Message message = next(consumer);
        assertEquals("one", message.getBody(String.class));
        assertEquals(mode, message.getJMSDeliveryMode());
    }

    @Test
    @DisplayName("A thousand asynchronous sends complete, in order, and all arrive.")
    void asynchronous() throws Exception {
        MessageConsumer consumer = auto(connection).createConsumer(topic);
        MessageProducer producer = session.createProducer(topic);
        Heard completed = new Heard();
        for (int i = 0; i < 1_000; i++) {
            producer.send(session.createTextMessage(Integer.toString(i)), completed);
        }
        for (int i = 0; i < 1_000; i++) {
            completed.expect(Integer.toString(i));
            expect(consumer, Integer.toString(i));
        }
    }

    @Test
    @DisplayName("A completed asynchronous send is durable: it survives the gateway's death.")
    void completedIsDurable() throws Exception {
        Gateway gateway = ownGateway();
        Connection connection = connectTo(gateway, "c");
        Session session = auto(connection);
        Topic topic = session.createTopic("t");
        durable(connection, topic).close();
        MessageProducer producer = session.createProducer(topic);
        Heard completed = new Heard();
        for (int i = 0; i < 100; i++) {
            producer.send(session.createTextMessage(Integer.toString(i)), completed);
        }
        completed.expectNumbers(100);
        gateway.crash();
        MessageConsumer consumer = durable(connectTo(gateway, "c"), topic);
        expectNumbers(consumer, 0, 100);
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "jms.forceSyncSend=true", "jms.forceAsyncSend=true", "jms.presettlePolicy.presettleAll=true",
        "jms.presettlePolicy.presettleProducers=true", "jms.presettlePolicy.presettleTopicProducers=true",
        "amqp.maxFrameSize=4096"
    })
    @DisplayName("However the client is told to send, all arrives in order.")
    void options(String option) throws Exception {
        Connection connection = connectWith(option);
        Topic topic = auto(connection).createTopic(name("options"));
        MessageConsumer consumer = auto(connect()).createConsumer(topic);
        publishMany(connection, topic, 100);
        expectNumbers(consumer, 0, 100);
    }

    @Test
    @DisplayName("A producer without a destination sends to each topic that it is given.")
    void anonymousProducer() throws Exception {
        MessageProducer producer = session.createProducer(null);
        List<MessageConsumer> consumers = new ArrayList<>();
        List<Topic> topics = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            topics.add(session.createTopic(name("anonymous" + i)));
            consumers.add(session.createConsumer(topics.get(i)));
        }
        for (int i = 0; i < 50; i++) {
            producer.send(topics.get(i % 5), session.createTextMessage(Integer.toString(i)));
        }
        for (int i = 0; i < 50; i++) {
            expect(consumers.get(i % 5), Integer.toString(i));
        }
    }

    @Test
    @DisplayName("A topic that nobody subscribes to takes messages all the same.")
    void nobodyListens() throws Exception {
        publish(connection, auto(connection).createTopic(name("nobody")), "one", "two");
    }

    @Test
    @DisplayName("A message of many frames arrives byte for byte.")
    void large() throws Exception {
        byte[] sent = new byte[5_000_000];
        new Random(7).nextBytes(sent);
        MessageConsumer consumer = session.createConsumer(topic);
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(sent);
        session.createProducer(topic).send(message);
        assertArrayEquals(sent, next(consumer).getBody(byte[].class));
    }

    @Test
    @DisplayName("A message that is too large is refused with an exception; others go on.")
    void tooLarge() throws Exception {
        MessageProducer producer = session.createProducer(topic);
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(new byte[17_000_000]);
        JMSException refused = assertThrows(JMSException.class, () -> producer.send(message));
        assertTrue(refused.getMessage().contains("message-size-exceeded"), refused.getMessage());
        MessageConsumer consumer = session.createConsumer(topic);
        publish(connection, topic, "small");
        expect(consumer, "small");
    }

    @Test
    @DisplayName("A topic's name that can't be is an InvalidDestinationException.")
    void impossibleTopic() throws Exception {
        Topic topic = session.createTopic("$internal");
        assertThrows(InvalidDestinationException.class, () -> session.createProducer(topic));
        assertThrows(InvalidDestinationException.class, () -> session.createConsumer(topic));
    }

    @Test
    @DisplayName("A producer without a destination is told of an impossible one by an exception.")
    void anonymousImpossible() throws Exception {
        MessageProducer producer = session.createProducer(null);
        Topic topic = session.createTopic("$internal");
        assertThrows(
                InvalidDestinationException.class,
                () -> producer.send(topic, session.createTextMessage("one")));
        MessageConsumer consumer = session.createConsumer(session.createTopic(name("next")));
        producer.send(session.createTopic(name("next")), session.createTextMessage("two"));
        expect(consumer, "two");
    }

    @Test
    @DisplayName("Topics' names may hold spaces, slashes, dots and letters of all alphabets; a wildcard is a pattern.")
    void names() throws Exception {
        for (String word : List.of("a b", "a/b/c", "a.b.c", "größe", "主题", "a|b", "a?b=c")) {
            Topic topic = session.createTopic(name(word));
            MessageConsumer consumer = session.createConsumer(topic);
            publish(connection, topic, word);
            Message message = next(consumer);
            assertEquals(word, message.getBody(String.class));
            assertEquals(topic, message.getJMSDestination());
        }
    }
}
