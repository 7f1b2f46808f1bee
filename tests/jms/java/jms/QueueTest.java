package jms;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSConsumer;
import jakarta.jms.JMSContext;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.QueueConnection;
import jakarta.jms.QueueReceiver;
import jakarta.jms.QueueSession;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a queue is: there on first use, one for everybody, kept until somebody takes it. */
class QueueTest extends OneClient {
    @Test
    @DisplayName("What is sent to a queue is received in order, once.")
    void sendAndReceive() throws Exception {
        MessageConsumer consumer = session.createConsumer(queue);
        publish(connection, queue, "one", "two", "three");
        expect(consumer, "one", "two", "three");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("A message for a queue that nobody consumes, or ever has, is kept.")
    void keptForNobody() throws Exception {
        publish(connection, queue, "one", "two");
        connection.close();
        expect(auto(connect()).createConsumer(queue), "one", "two");
    }

    @Test
    @DisplayName("A queue and what it is owed survive an orderly restart.")
    void survivesStop() throws Exception {
        Gateway gateway = ownGateway();
        Connection before = connectTo(gateway, null);
        publish(before, queue, "one", "two", "three");
        expect(auto(before).createConsumer(queue), "one");
        before.close();
        gateway.restart();
        MessageConsumer again = auto(connectTo(gateway, null)).createConsumer(queue);
        expectCounted(again, "two", 1);
        expectCounted(again, "three", 1);
        expectNothing(again);
    }

    @Test
    @DisplayName("A queue and what it is owed survive the death of the gateway.")
    void survivesKill() throws Exception {
        Gateway gateway = ownGateway();
        publish(connectTo(gateway, null), queue, "one", "two");
        gateway.crash();
        MessageConsumer again = auto(connectTo(gateway, null)).createConsumer(queue);
        expectCounted(again, "one", 1);
        expectCounted(again, "two", 1);
        expectNothing(again);
    }

    @Test
    @DisplayName("What waits when its last consumer closes, or its session, is still there.")
    void outlivesItsConsumers() throws Exception {
        publish(connection, queue, "one", "two", "three");
        MessageConsumer closing = session.createConsumer(queue);
        expect(closing, "one");
        closing.close();
        Session ending = auto(connection);
        expect(ending.createConsumer(queue), "two");
        ending.close();
        publish(connection, queue, "four");
        expect(session.createConsumer(queue), "three", "four");
    }

    @Test
    @DisplayName("A queue that was only named by a producer is there after the gateway's death.")
    void madeByItsProducer() throws Exception {
        Gateway gateway = ownGateway();
        auto(connectTo(gateway, null)).createProducer(queue);
        gateway.crash();
        Connection again = connectTo(gateway, null);
        publish(again, queue, "one");
        expect(auto(again).createConsumer(queue), "one");
    }

    @Test
    @DisplayName("A hundred queues keep what is theirs over the gateway's death.")
    void manySurvive() throws Exception {
        Gateway gateway = ownGateway();
        Session before = auto(connectTo(gateway, null));
        MessageProducer producer = before.createProducer(null);
        for (int i = 0; i < 100; i++) {
            producer.send(before.createQueue("q" + i), before.createTextMessage("for " + i));
        }
        gateway.crash();
        Session after = auto(connectTo(gateway, null));
        for (int i = 0; i < 100; i++) {
            MessageConsumer consumer = after.createConsumer(after.createQueue("q" + i));
            expect(consumer, "for " + i);
            consumer.close();
        }
    }

    @Test
    @DisplayName("A topic and a queue of one name are two, and so is a shared subscription of it.")
    void besideATopic() throws Exception {
        Topic namesake = session.createTopic(queue.getQueueName());
        MessageConsumer ofTopic = session.createConsumer(namesake);
        MessageConsumer ofQueue = session.createConsumer(queue);
        MessageConsumer ofSubscription =
                auto(connect()).createSharedDurableConsumer(namesake, queue.getQueueName());
        publish(connection, namesake, "for the topic");
        publish(connection, queue, "for the queue");
        for (MessageConsumer consumer : List.of(ofTopic, ofSubscription)) {
            expect(consumer, "for the topic");
            expectNothing(consumer);
        }
        expect(ofQueue, "for the queue");
        expectNothing(ofQueue);
    }

    @Test
    @DisplayName("A producer without a destination sends to queues and topics of the same names.")
    void anonymousProducer() throws Exception {
        MessageProducer producer = session.createProducer(null);
        List<MessageConsumer> ofTopics = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            ofTopics.add(session.createConsumer(session.createTopic(name("many" + i))));
        }
        for (int i = 0; i < 50; i++) {
            Message message = session.createTextMessage(Integer.toString(i));
            producer.send(session.createQueue(name("many" + i % 5)), message);
            producer.send(session.createTopic(name("many" + i % 5)), message);
        }
        for (int i = 0; i < 5; i++) {
            MessageConsumer ofQueue = session.createConsumer(session.createQueue(name("many" + i)));
            for (int n = i; n < 50; n += 5) {
                expect(ofQueue, Integer.toString(n));
                expect(ofTopics.get(i), Integer.toString(n));
            }
            expectNothing(ofQueue);
        }
    }

    @Test
    @DisplayName("Without an address' prefix the client's word counts; with one both say the same.")
    void prefixedName() throws Exception {
        Queue prefixed = session.createQueue("queue://" + queue.getQueueName());
        publish(connection, prefixed, "one");
        expect(session.createConsumer(queue), "one");
        Topic other = session.createTopic("topic://" + topic.getTopicName());
        MessageConsumer consumer = session.createConsumer(other);
        publish(connection, topic, "two");
        expect(consumer, "two");
    }

    @Test
    @DisplayName("A prefix that says topic where a queue is asked for is refused.")
    void contradiction() throws Exception {
        Queue odd = session.createQueue("topic://" + topic.getTopicName());
        expectRefused("amqp:invalid-field", () -> session.createConsumer(odd));
        expectRefused("amqp:invalid-field", () -> session.createProducer(odd));
    }

    @Test
    @DisplayName("A client that is told to use prefixes sees names without them.")
    void clientWithPrefixes() throws Exception {
        Session own = auto(connectWith("jms.queuePrefix=queue://&jms.topicPrefix=topic://"));
        Message message = own.createTextMessage("one");
        message.setJMSReplyTo(queue);
        own.createProducer(queue).send(message);
        Message got = next(own.createConsumer(queue));
        assertEquals(queue, got.getJMSDestination());
        assertEquals(queue, got.getJMSReplyTo());
    }

    @Test
    @DisplayName("The destination of what is received is the queue that it was sent to.")
    void destination() throws Exception {
        publish(connection, queue, "one");
        Message got = next(session.createConsumer(queue));
        assertEquals(queue, assertInstanceOf(Queue.class, got.getJMSDestination()));
        assertEquals("one", got.getBody(String.class));
    }

    @Test
    @DisplayName("A reply-to queue is where the answer goes, by a producer without a destination.")
    void replyTo() throws Exception {
        Queue answers = session.createQueue(name("answers"));
        Message question = session.createTextMessage("question");
        question.setJMSReplyTo(answers);
        session.createProducer(queue).send(question);
        Session service = auto(connect());
        Message got = next(service.createConsumer(queue));
        Message answer = service.createTextMessage("answer");
        answer.setJMSCorrelationID(got.getJMSMessageID());
        service.createProducer(null).send(got.getJMSReplyTo(), answer);
        Message answered = next(session.createConsumer(answers));
        assertEquals(question.getJMSMessageID(), answered.getJMSCorrelationID());
    }

    @Test
    @DisplayName("A listener hears what waits in a queue, and what comes.")
    void listener() throws Exception {
        publish(connection, queue, "one", "two");
        Heard heard = new Heard();
        session.createConsumer(queue).setMessageListener(heard);
        publish(connect(), queue, "three");
        heard.expect("one", "two", "three");
    }

    @Test
    @DisplayName("A connection consumer of a queue hands over what comes, and takes it.")
    void connectionConsumer() throws Exception {
        publish(connection, queue, "one", "two");
        Heard heard = new Heard();
        session.setMessageListener(heard);
        connection.createConnectionConsumer(queue, null, pool(session), 10);
        heard.expect("one", "two");
        publish(connect(), queue, "three");
        heard.expect("three");
        connection.close();
        expectNothing(auto(connect()).createConsumer(queue));
    }

    @Test
    @DisplayName("The simplified API sends to a queue and receives from it.")
    void context() {
        try (JMSContext context = new JmsConnectionFactory(uri(Gateway.SHARED, "")).createContext()) {
            context.createProducer().send(queue, "one").send(queue, "two");
            JMSConsumer consumer = context.createConsumer(queue);
            assertEquals("one", consumer.receiveBody(String.class, PATIENCE));
            consumer.close();
            JMSConsumer again = context.createConsumer(queue);
            assertEquals("two", again.receiveBody(String.class, PATIENCE));
        }
    }

    @Test
    @DisplayName("A context that acknowledges by itself gets again what it didn't acknowledge.")
    void contextAcknowledges() {
        JmsConnectionFactory factory = new JmsConnectionFactory(uri(Gateway.SHARED, ""));
        try (JMSContext context = factory.createContext(JMSContext.CLIENT_ACKNOWLEDGE)) {
            context.createProducer().send(queue, "one").send(queue, "two");
            JMSConsumer consumer = context.createConsumer(queue);
            assertEquals("one", consumer.receiveBody(String.class, PATIENCE));
            context.acknowledge();
            assertEquals("two", consumer.receiveBody(String.class, PATIENCE));
        }
        try (JMSContext context = factory.createContext()) {
            assertEquals("two", context.createConsumer(queue).receiveBody(String.class, PATIENCE));
        }
    }

    @Test
    @DisplayName("The API that was for queues alone does the same.")
    void oldApi() throws Exception {
        try (QueueConnection own =
                new JmsConnectionFactory(uri(Gateway.SHARED, "")).createQueueConnection()) {
            own.start();
            QueueSession old = own.createQueueSession(false, Session.AUTO_ACKNOWLEDGE);
            old.createSender(queue).send(old.createTextMessage("one"));
            QueueReceiver receiver = old.createReceiver(queue);
            assertEquals(queue, receiver.getQueue());
            expect(receiver, "one");
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "jms.forceSyncSend=true", "jms.forceAsyncSend=true", "jms.presettlePolicy.presettleAll=true",
        "jms.presettlePolicy.presettleQueueProducers=true", "amqp.maxFrameSize=4096"
    })
    @DisplayName("However the client is told to send, all arrives in the queue, in order.")
    void options(String option) throws Exception {
        publishMany(connectWith(option), queue, 100);
        expectNumbers(session.createConsumer(queue), 0, 100);
    }

    @Test
    @DisplayName("Completed asynchronous sends to a queue survive the gateway's death.")
    void completedIsDurable() throws Exception {
        Gateway gateway = ownGateway();
        Session before = auto(connectTo(gateway, null));
        MessageProducer producer = before.createProducer(queue);
        Heard completed = new Heard();
        for (int i = 0; i < 100; i++) {
            producer.send(before.createTextMessage(Integer.toString(i)), completed);
        }
        completed.expectNumbers(100);
        gateway.crash();
        expectNumbers(auto(connectTo(gateway, null)).createConsumer(queue), 0, 100);
    }

    @Test
    @DisplayName("A message of many frames comes from a queue byte for byte.")
    void large() throws Exception {
        byte[] sent = new byte[5_000_000];
        new Random(7).nextBytes(sent);
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(sent);
        session.createProducer(queue).send(message);
        assertArrayEquals(sent, next(session.createConsumer(queue)).getBody(byte[].class));
    }

    @Test
    @DisplayName("What has expired in a queue isn't received; what stands behind it is.")
    void expired() throws Exception {
        MessageProducer producer = session.createProducer(queue);
        producer.setTimeToLive(1);
        producer.send(session.createTextMessage("short"));
        producer.setTimeToLive(0);
        producer.send(session.createTextMessage("long"));
        Thread.sleep(5);
        MessageConsumer consumer = session.createConsumer(queue);
        expect(consumer, "long");
        expectNothing(consumer);
        consumer.close();
        expectNothing(session.createConsumer(queue));
    }

    @Test
    @DisplayName("A queue isn't a subscription that anybody can unsubscribe.")
    void notUnsubscribed() throws Exception {
        publish(connection, queue, "kept");
        String name = queue.getQueueName();
        assertThrows(InvalidDestinationException.class, () -> session.unsubscribe(name));
        Session anonymous = auto(connect());
        assertThrows(InvalidDestinationException.class, () -> anonymous.unsubscribe(name));
        expect(session.createConsumer(queue), "kept");
    }

    @Test
    @DisplayName("A queue's name that can't be is an InvalidDestinationException.")
    void impossible() throws Exception {
        Queue odd = session.createQueue("$internal");
        assertThrows(InvalidDestinationException.class, () -> session.createProducer(odd));
        assertThrows(InvalidDestinationException.class, () -> session.createConsumer(odd));
        MessageProducer producer = session.createProducer(null);
        Message message = session.createMessage();
        assertThrows(InvalidDestinationException.class, () -> producer.send(odd, message));
    }

    @Test
    @DisplayName("Queues' names may hold spaces, slashes, dots and letters of all alphabets.")
    void names() throws Exception {
        for (String word : List.of("a b", "a/b/c", "a.b.c", "größe", "主题", "a|b", "a?b=c", "*")) {
            Queue named = session.createQueue(name(word));
            publish(connection, named, word);
            Message message = next(session.createConsumer(named));
            assertEquals(word, message.getBody(String.class));
            assertEquals(named, message.getJMSDestination());
        }
    }
}
