package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Destination;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSConsumer;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.QueueConnection;
import jakarta.jms.QueueRequestor;
import jakarta.jms.QueueSession;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TemporaryTopic;
import jakarta.jms.Topic;
import jakarta.jms.TopicConnection;
import jakarta.jms.TopicRequestor;
import jakarta.jms.TopicSession;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.apache.qpid.jms.JmsTemporaryQueue;
import org.apache.qpid.jms.JmsTemporaryTopic;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Destinations that live as long as the connection that made them, and the answers they take. */
class TemporaryTest extends OneClient {
    /** A service of another connection: it answers each message where the message says. */
    private void answering(Destination questions) throws Exception {
        Session service = auto(connect());
        MessageProducer producer = service.createProducer(null);
        service.createConsumer(questions).setMessageListener(question -> {
            try {
                Message answer = service.createTextMessage("re: " + question.getBody(String.class));
                answer.setJMSCorrelationID(question.getJMSMessageID());
                producer.send(question.getJMSReplyTo(), answer);
            } catch (JMSException error) {
                throw new IllegalStateException(error);
            }
        });
    }

    private static Message ask(Session session, Destination to, String text, Destination answers)
            throws Exception {
        MessageProducer producer = session.createProducer(to);
        Message question = session.createTextMessage(text);
        question.setJMSReplyTo(answers);
        producer.send(question);
        return question;
    }

    @Test
    @DisplayName("A temporary queue keeps what is sent to it, by anybody, for its own connection.")
    void queue() throws Exception {
        TemporaryQueue temporary = session.createTemporaryQueue();
        publish(connect(), temporary, "one", "two");
        publish(connection, temporary, "three");
        MessageConsumer consumer = auto(connection).createConsumer(temporary);
        expect(consumer, "one", "two", "three");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("The consumers of a temporary queue share it.")
    void queueIsShared() throws Exception {
        Connection none = connectWith(NO_PREFETCH);
        Session own = auto(none);
        TemporaryQueue temporary = own.createTemporaryQueue();
        MessageConsumer first = own.createConsumer(temporary);
        MessageConsumer second = auto(none).createConsumer(temporary);
        publish(connection, temporary, "one", "two");
        expect(first, "one");
        expect(second, "two");
        expectNothing(first);
    }

    @Test
    @DisplayName("All consumers of a temporary topic receive what comes while they are there.")
    void topic() throws Exception {
        TemporaryTopic temporary = session.createTemporaryTopic();
        publish(connect(), temporary, "early");
        MessageConsumer first = session.createConsumer(temporary);
        MessageConsumer second = auto(connection).createConsumer(temporary);
        publish(connect(), temporary, "one", "two");
        for (MessageConsumer consumer : List.of(first, second)) {
            expect(consumer, "one", "two");
            expectNothing(consumer);
        }
    }

    @Test
    @DisplayName("A temporary topic may be shared by its connection's consumers, and selected from.")
    void topicIsShared() throws Exception {
        Connection none = connectWith(NO_PREFETCH);
        Session own = auto(none);
        TemporaryTopic temporary = own.createTemporaryTopic();
        MessageConsumer first = own.createSharedConsumer(temporary, "s");
        MessageConsumer second = auto(none).createSharedConsumer(temporary, "s");
        MessageConsumer selecting = own.createConsumer(temporary, "JMSType = 'order'");
        publish(connection, temporary, "one", "two");
        expect(second, "one");
        expect(first, "two");
        expectNothing(first);
        expectNothing(selecting);
    }

    @Test
    @DisplayName("Non-persistent questions and large answers go through as well.")
    void largeAnswers() throws Exception {
        TemporaryQueue answers = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(answers);
        Session service = auto(connect());
        MessageProducer producer = service.createProducer(answers);
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        for (int i = 0; i < 10; i++) {
            producer.send(service.createTextMessage("x".repeat(1_000_000) + i));
        }
        for (int i = 0; i < 10; i++) {
            assertEquals("x" + i, text(consumer).substring(999_999));
        }
    }

    @Test
    @DisplayName("Every temporary destination has a name of its own.")
    void names() throws Exception {
        Set<String> names = new HashSet<>();
        for (int i = 0; i < 20; i++) {
            names.add(session.createTemporaryQueue().getQueueName());
            names.add(session.createTemporaryTopic().getTopicName());
        }
        assertEquals(40, names.size());
    }

    @Test
    @DisplayName("An answer goes to the queue that the question names, and says what it answers.")
    void requestAndReply() throws Exception {
        answering(queue);
        TemporaryQueue answers = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(answers);
        Message question = ask(session, queue, "what?", answers);
        Message answer = next(consumer);
        assertEquals("re: what?", answer.getBody(String.class));
        assertEquals(question.getJMSMessageID(), answer.getJMSCorrelationID());
        assertEquals(answers, assertInstanceOf(TemporaryQueue.class, answer.getJMSDestination()));
    }

    @Test
    @DisplayName("The one who is asked sees a temporary queue as the reply-to, or a topic.")
    void replyTo() throws Exception {
        TemporaryTopic answers = session.createTemporaryTopic();
        TemporaryQueue others = session.createTemporaryQueue();
        MessageConsumer service = auto(connect()).createConsumer(queue);
        ask(session, queue, "one", answers);
        ask(session, queue, "two", others);
        assertEquals(answers.getTopicName(),
                assertInstanceOf(TemporaryTopic.class, next(service).getJMSReplyTo()).getTopicName());
        assertEquals(others.getQueueName(),
                assertInstanceOf(TemporaryQueue.class, next(service).getJMSReplyTo()).getQueueName());
    }

    @Test
    @DisplayName("Twenty clients ask one service at the same time, and each gets its own answers.")
    void manyClients() throws Exception {
        answering(queue);
        List<MessageConsumer> consumers = new ArrayList<>();
        for (int client = 0; client < 20; client++) {
            Session own = auto(connect());
            TemporaryQueue answers = own.createTemporaryQueue();
            consumers.add(own.createConsumer(answers));
            for (int i = 0; i < 10; i++) {
                ask(own, queue, client + "-" + i, answers);
            }
        }
        for (int client = 0; client < 20; client++) {
            for (int i = 0; i < 10; i++) {
                expect(consumers.get(client), "re: " + client + "-" + i);
            }
        }
    }

    @Test
    @DisplayName("QueueRequestor asks and gets its answer.")
    void queueRequestor() throws Exception {
        answering(queue);
        try (QueueConnection own =
                new JmsConnectionFactory(uri(Gateway.SHARED, "")).createQueueConnection()) {
            own.start();
            QueueSession old = own.createQueueSession(false, Session.AUTO_ACKNOWLEDGE);
            QueueRequestor requestor = new QueueRequestor(old, queue);
            for (String text : List.of("one", "two")) {
                Message answer = requestor.request(old.createTextMessage(text));
                assertEquals("re: " + text, answer.getBody(String.class));
            }
            requestor.close();
        }
    }

    @Test
    @DisplayName("TopicRequestor asks and gets its answer.")
    void topicRequestor() throws Exception {
        answering(topic);
        try (TopicConnection own =
                new JmsConnectionFactory(uri(Gateway.SHARED, "")).createTopicConnection()) {
            own.start();
            TopicSession old = own.createTopicSession(false, Session.AUTO_ACKNOWLEDGE);
            TopicRequestor requestor = new TopicRequestor(old, topic);
            Message answer = requestor.request(old.createTextMessage("one"));
            assertEquals("re: one", answer.getBody(String.class));
            requestor.close();
        }
    }

    @Test
    @DisplayName("The simplified API asks by a temporary queue too.")
    void context() throws Exception {
        answering(queue);
        try (JMSContext context = new JmsConnectionFactory(uri(Gateway.SHARED, "")).createContext()) {
            TemporaryQueue answers = context.createTemporaryQueue();
            JMSConsumer consumer = context.createConsumer(answers);
            context.createProducer().setJMSReplyTo(answers).send(queue, "what?");
            assertEquals("re: what?", consumer.receiveBody(String.class, PATIENCE));
        }
    }

    @Test
    @DisplayName("A deleted temporary queue takes nothing more: InvalidDestinationException.")
    void deletedQueue() throws Exception {
        TemporaryQueue temporary = session.createTemporaryQueue();
        publish(connection, temporary, "never read");
        temporary.delete();
        gone(temporary);
    }

    @Test
    @DisplayName("A deleted temporary topic takes nothing more: InvalidDestinationException.")
    void deletedTopic() throws Exception {
        TemporaryTopic temporary = session.createTemporaryTopic();
        temporary.delete();
        gone(temporary);
    }

    private void gone(TemporaryQueue temporary) throws Exception {
        gone(temporary, new JmsTemporaryQueue(temporary.getQueueName()));
    }

    private void gone(TemporaryTopic temporary) throws Exception {
        gone(temporary, new JmsTemporaryTopic(temporary.getTopicName()));
    }

    /** The client knows it of its own object, and the gateway of any other that bears the name. */
    private void gone(Destination own, Destination foreign) throws Exception {
        Session other = auto(connect());
        MessageProducer producer = other.createProducer(null);
        Message message = other.createTextMessage("too late");
        assertThrows(jakarta.jms.IllegalStateException.class, () -> producer.send(own, message));
        assertThrows(InvalidDestinationException.class, () -> producer.send(foreign, message));
        assertThrows(InvalidDestinationException.class, () -> other.createProducer(foreign));
        publish(connection, queue, "the connection goes on");
        MessageConsumer consumer = session.createConsumer(queue);
        expect(consumer, "the connection goes on");
        consumer.close();
    }

    @Test
    @DisplayName("A temporary destination with a consumer isn't deleted, and goes on.")
    void deletedInUse() throws Exception {
        TemporaryQueue temporary = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(temporary);
        assertThrows(jakarta.jms.IllegalStateException.class, temporary::delete);
        publish(connect(), temporary, "one");
        expect(consumer, "one");
        consumer.close();
        temporary.delete();
        gone(temporary);
    }

    @Test
    @DisplayName("A producer of a temporary queue is closed when the queue is deleted.")
    void producerOfADeletedOne() throws Exception {
        TemporaryQueue temporary = session.createTemporaryQueue();
        Session other = auto(connect());
        MessageProducer producer = other.createProducer(temporary);
        producer.send(other.createTextMessage("one"));
        temporary.delete();
        assertThrows(JMSException.class, () -> {
            for (int i = 0; i < 100; i++) {
                producer.send(other.createTextMessage("too late"));
            }
        });
    }

    @Test
    @DisplayName("What a closed connection made is gone; others hear of it when they send.")
    void goneWithItsConnection() throws Exception {
        Connection maker = connect();
        TemporaryQueue temporaryQueue = auto(maker).createTemporaryQueue();
        TemporaryTopic temporaryTopic = auto(maker).createTemporaryTopic();
        publish(connection, temporaryQueue, "while it is there");
        maker.close();
        gone(temporaryQueue);
        gone(temporaryTopic);
    }

    @Test
    @DisplayName("What a cut wire's connection made is gone.")
    void goneWithItsWire() throws Exception {
        TemporaryQueue temporary;
        try (Wire wire = new Wire(Gateway.SHARED)) {
            temporary = auto(open(wire.uri(""), name("cut"))).createTemporaryQueue();
            publish(connection, temporary, "while it is there");
            wire.cut();
        }
        // The client id is free again when the gateway has seen the end of the old connection.
        open(failover(Gateway.SHARED), name("cut"));
        // The client sees it by itself, perhaps later: until then it asks the gateway, which says no.
        MessageProducer producer = session.createProducer(null);
        JMSException refused;
        do {
            refused = assertThrows(JMSException.class,
                () -> producer.send(temporary, session.createTextMessage("too late")));
        } while (refused instanceof InvalidDestinationException);
        gone(temporary);
    }

    @Test
    @DisplayName("A session's close leaves the temporary queue, which is its connection's.")
    void outlivesItsSession() throws Exception {
        Session maker = auto(connection);
        TemporaryQueue temporary = maker.createTemporaryQueue();
        publish(connection, temporary, "one");
        maker.close();
        expect(session.createConsumer(temporary), "one");
    }

    @Test
    @DisplayName("Another connection may send, and can't consume: the client refuses it.")
    void foreignConsumer() throws Exception {
        TemporaryQueue temporary = session.createTemporaryQueue();
        Connection other = connect();
        Session foreign = auto(other);
        assertThrows(InvalidDestinationException.class, () -> foreign.createConsumer(temporary));
        publish(other, temporary, "one");
        expect(session.createConsumer(temporary), "one");
    }

    @Test
    @DisplayName("Who only knows its name can't consume either: the gateway refuses it.")
    void foreignConsumerByName() throws Exception {
        TemporaryQueue temporaryQueue = session.createTemporaryQueue();
        TemporaryTopic temporaryTopic = session.createTemporaryTopic();
        Session foreign = auto(connect());
        Queue byName = foreign.createQueue(temporaryQueue.getQueueName());
        Topic topicByName = foreign.createTopic(temporaryTopic.getTopicName());
        expectRefused("amqp:resource-locked", () -> foreign.createConsumer(byName));
        expectRefused("amqp:resource-locked", () -> foreign.createConsumer(topicByName));
        foreign.createProducer(byName).send(foreign.createTextMessage("one"));
        expect(session.createConsumer(temporaryQueue), "one");
    }

    @Test
    @DisplayName("A durable subscription of a temporary topic is an InvalidDestinationException.")
    void notDurable() throws Exception {
        TemporaryTopic temporary = session.createTemporaryTopic();
        assertThrows(
                InvalidDestinationException.class,
                () -> session.createDurableConsumer(temporary, "s"));
    }

    @Test
    @DisplayName("After a restart of the gateway temporary destinations are gone.")
    void goneWithTheGateway() throws Exception {
        Gateway gateway = ownGateway();
        TemporaryQueue temporary = auto(connectTo(gateway, null)).createTemporaryQueue();
        gateway.restart();
        Session after = auto(connectTo(gateway, null));
        Queue byName = after.createQueue(temporary.getQueueName());
        assertThrows(InvalidDestinationException.class, () -> after.createConsumer(byName));
        assertThrows(InvalidDestinationException.class, () -> after.createProducer(byName));
    }

    @Test
    @DisplayName("A failover client makes its temporary queue again, and is answered there.")
    void failingOver() throws Exception {
        Gateway gateway = ownGateway();
        Session asking = auto(open(failover(gateway), null));
        TemporaryQueue answers = asking.createTemporaryQueue();
        MessageConsumer consumer = asking.createConsumer(answers);
        String before = answers.getQueueName();
        gateway.crash();
        Session service = auto(open(failover(gateway), null));
        MessageConsumer asked = service.createConsumer(queue);
        ask(asking, queue, "what?", answers);
        Destination there = next(asked).getJMSReplyTo();
        service.createProducer(null).send(there, service.createTextMessage("that"));
        expect(consumer, "that");
        assertNotEquals(before, answers.getQueueName());
    }

    @Test
    @DisplayName("Five hundred temporary queues come and go, one after the other.")
    void manyInTurn() throws Exception {
        for (int i = 0; i < 500; i++) {
            TemporaryQueue temporary = session.createTemporaryQueue();
            temporary.delete();
        }
        TemporaryQueue last = session.createTemporaryQueue();
        publish(connection, last, "one");
        expect(session.createConsumer(last), "one");
    }
}
