package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TransactionRolledBackException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Transacted sessions: what was sent and received in one becomes true as a whole, or not at all. */
class TransactionTest extends OneClient {
    private Session transacted() throws Exception {
        return transacted(connection);
    }

    private static Session transacted(Connection connection) throws JMSException {
        return connection.createSession(true, Session.SESSION_TRANSACTED);
    }

    private static void send(Session session, Destination to, String... texts) throws Exception {
        MessageProducer producer = session.createProducer(to);
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
        producer.close();
    }

    @Test
    @DisplayName("What a transacted session sent arrives after commit, and never after rollback.")
    void transactedSend() throws Exception {
        MessageConsumer consumer = session.createConsumer(topic);
        Session transacted = transacted();
        assertTrue(transacted.getTransacted());
        send(transacted, topic, "rolled back");
        transacted.rollback();
        send(transacted, topic, "one", "two");
        expectNothing(consumer);
        transacted.commit();
        expect(consumer, "one", "two");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("Messages that aren't persistent are sent in the transaction as well.")
    void notPersistent() throws Exception {
        MessageConsumer consumer = session.createConsumer(topic);
        Session transacted = transacted();
        MessageProducer producer = transacted.createProducer(topic);
        producer.setDeliveryMode(jakarta.jms.DeliveryMode.NON_PERSISTENT);
        producer.send(transacted.createTextMessage("never"));
        transacted.rollback();
        producer.send(transacted.createTextMessage("sent"));
        expectNothing(consumer);
        transacted.commit();
        expect(consumer, "sent");
    }

    @Test
    @DisplayName("What a transacted session received comes again after rollback, counted.")
    void transactedReceive() throws Exception {
        Session transacted = transacted();
        MessageConsumer consumer = transacted.createDurableConsumer(topic, "s");
        publish(connection, topic, "one");
        expectCounted(consumer, "one", 1);
        transacted.rollback();
        expectCounted(consumer, "one", 2);
        transacted.rollback();
        expectCounted(consumer, "one", 3);
        transacted.commit();
        expectNothing(consumer);
        transacted.rollback();
        expectNothing(consumer);
    }

    @Test
    @DisplayName("After rollback the prefetched messages come in their old order.")
    void orderAfterRollback() throws Exception {
        Session transacted = transacted();
        MessageConsumer consumer = transacted.createDurableConsumer(topic, "s");
        publishMany(connection, topic, 1_000);
        expectNumbers(consumer, 0, 100);
        transacted.rollback();
        for (int i = 0; i < 1_000; i++) {
            expectCounted(consumer, Integer.toString(i), i < 100 ? 2 : 1);
        }
        transacted.commit();
        expectNothing(consumer);
    }

    @Test
    @DisplayName("A rollback after a part was committed brings back the rest alone, in order.")
    void partlyCommitted() throws Exception {
        publishMany(connection, queue, 100);
        Session transacted = transacted();
        MessageConsumer consumer = transacted.createConsumer(queue);
        expectNumbers(consumer, 0, 30);
        transacted.commit();
        expectNumbers(consumer, 30, 60);
        transacted.rollback();
        expectNumbers(consumer, 30, 100);
        transacted.commit();
        expectNothing(consumer);
    }

    @Test
    @DisplayName("What is received and what is sent in one transaction are one.")
    void receiveAndSend() throws Exception {
        Queue done = session.createQueue(name("done"));
        publish(connection, queue, "work");
        MessageConsumer results = session.createConsumer(done);
        Session transacted = transacted();
        MessageConsumer consumer = transacted.createConsumer(queue);
        MessageConsumer listening = session.createConsumer(topic);
        for (boolean commit : new boolean[] {false, true}) {
            expect(consumer, "work");
            send(transacted, done, "result");
            send(transacted, topic, "news");
            if (commit) {
                transacted.commit();
            } else {
                transacted.rollback();
                expectNothing(results);
                expectNothing(listening);
            }
        }
        expect(results, "result");
        expect(listening, "news");
        expectNothing(consumer);
        expectNothing(results);
    }

    @Test
    @DisplayName("A session that closes in a transaction rolls it back.")
    void transactedClose() throws Exception {
        publish(connection, queue, "kept");
        MessageConsumer consumer = session.createConsumer(topic);
        Session transacted = transacted();
        expect(transacted.createConsumer(queue), "kept");
        send(transacted, topic, "never");
        transacted.close();
        expectNothing(consumer);
        expectCounted(session.createConsumer(queue), "kept", 2);
    }

    @Test
    @DisplayName("So does a connection that closes, or that is lost.")
    void connectionCloses() throws Exception {
        publish(connection, queue, "kept");
        Connection other = connect();
        Session transacted = transacted(other);
        expect(transacted.createConsumer(queue), "kept");
        send(transacted, topic, "never");
        MessageConsumer consumer = session.createConsumer(topic);
        other.close();
        expectCounted(session.createConsumer(queue), "kept", 2);
        expectNothing(consumer);
    }

    @Test
    @DisplayName("Sessions of one connection have transactions of their own.")
    void severalSessions() throws Exception {
        MessageConsumer consumer = session.createConsumer(topic);
        Session first = transacted();
        Session second = transacted();
        MessageProducer one = first.createProducer(topic);
        MessageProducer two = second.createProducer(topic);
        for (int i = 0; i < 5; i++) {
            one.send(first.createTextMessage("first " + i));
            two.send(second.createTextMessage("second " + i));
        }
        second.commit();
        for (int i = 0; i < 5; i++) {
            expect(consumer, "second " + i);
        }
        expectNothing(consumer);
        first.commit();
        for (int i = 0; i < 5; i++) {
            expect(consumer, "first " + i);
        }
        expectNothing(consumer);
    }

    @Test
    @DisplayName("Consumers of one session share its transaction.")
    void severalConsumers() throws Exception {
        Session transacted = transacted();
        MessageConsumer ofTopic = transacted.createDurableConsumer(topic, "s");
        MessageConsumer ofQueue = transacted.createConsumer(queue);
        publish(connection, topic, "one", "two", "three");
        publish(connection, queue, "a", "b", "c");
        expect(ofTopic, "one");
        expect(ofQueue, "a", "b");
        transacted.rollback();
        expectCounted(ofTopic, "one", 2);
        expectCounted(ofTopic, "two", 1);
        expectCounted(ofQueue, "a", 2);
        expectCounted(ofQueue, "b", 2);
        expectCounted(ofQueue, "c", 1);
        transacted.commit();
        expect(ofTopic, "three");
        expectNothing(ofQueue);
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    @DisplayName("What a consumer received that was closed since is committed or comes back as all else.")
    void consumerClosed(boolean commit) throws Exception {
        publish(connection, queue, "one");
        Session transacted = transacted();
        MessageConsumer consumer = transacted.createConsumer(queue);
        expect(consumer, "one");
        consumer.close();
        MessageConsumer after = transacted.createConsumer(queue);
        expectNothing(after);
        if (commit) {
            transacted.commit();
        } else {
            transacted.rollback();
            expectCounted(after, "one", 2);
            transacted.commit();
        }
        expectNothing(after);
    }

    @Test
    @DisplayName("A listener commits and rolls back: it is called again with what it rolled back.")
    void listener() throws Exception {
        Session transacted = transacted();
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        transacted.createConsumer(queue).setMessageListener(message -> {
            try {
                int count = message.getIntProperty("JMSXDeliveryCount");
                heard.add(message.getBody(String.class) + " " + count);
                if (count == 1) {
                    transacted.rollback();
                } else {
                    transacted.commit();
                }
            } catch (JMSException error) {
                heard.add(error.toString());
            }
        });
        publish(connection, queue, "one", "two");
        for (String text : new String[] {"one 1", "one 2", "two 1", "two 2"}) {
            assertEquals(text, heard.poll(PATIENCE, TimeUnit.MILLISECONDS));
        }
        assertEquals(null, heard.poll(SILENCE, TimeUnit.MILLISECONDS));
    }

    @Test
    @DisplayName("A listener that sends on what it gets moves all messages, each once.")
    void listenerMoves() throws Exception {
        Queue done = session.createQueue(name("done"));
        publishMany(connection, queue, 300);
        Session transacted = transacted();
        MessageProducer producer = transacted.createProducer(done);
        transacted.createConsumer(queue).setMessageListener(message -> {
            try {
                producer.send(transacted.createTextMessage(message.getBody(String.class)));
                if (Integer.parseInt(message.getBody(String.class)) % 10 == 9) {
                    transacted.commit();
                }
            } catch (JMSException error) {
                throw new IllegalStateException(error);
            }
        });
        expectNumbers(session.createConsumer(done), 0, 300);
        transacted.close();
        expectNothing(auto(connection).createConsumer(queue));
    }

    @Test
    @DisplayName("A transaction of thousands of messages is one as well.")
    void thousands() throws Exception {
        Session transacted = transacted();
        MessageProducer producer = transacted.createProducer(queue);
        for (int i = 0; i < 5_000; i++) {
            producer.send(transacted.createTextMessage(Integer.toString(i)));
        }
        MessageConsumer consumer = session.createConsumer(queue);
        expectNothing(consumer);
        transacted.commit();
        expectNumbers(consumer, 0, 5_000);
        expectNothing(consumer);
    }

    @Test
    @DisplayName("A context's transactions are those of a session.")
    void context() throws Exception {
        MessageConsumer consumer = session.createConsumer(topic);
        JmsConnectionFactory factory = new JmsConnectionFactory(uri(Gateway.SHARED, ""));
        try (JMSContext context = factory.createContext(JMSContext.SESSION_TRANSACTED)) {
            context.createProducer().send(topic, "never");
            context.rollback();
            context.createProducer().send(topic, "sent");
            expectNothing(consumer);
            context.commit();
        }
        expect(consumer, "sent");
    }

    @Test
    @DisplayName("A message that can't be sent fails the commit, and nothing of it was sent.")
    void refused() throws Exception {
        BlockingQueue<JMSException> told = new LinkedBlockingQueue<>();
        connection.setExceptionListener(told::add);
        MessageConsumer consumer = session.createConsumer(topic);
        Session transacted = transacted();
        MessageProducer anywhere = transacted.createProducer(null);
        anywhere.send(topic, transacted.createTextMessage("never"));
        anywhere.send(transacted.createTopic("x".repeat(300)), transacted.createTextMessage("bad"));
        assertThrows(TransactionRolledBackException.class, transacted::commit);
        assertNotNull(told.poll(PATIENCE, TimeUnit.MILLISECONDS));
        expectNothing(consumer);
        anywhere.send(topic, transacted.createTextMessage("again"));
        transacted.commit();
        expect(consumer, "again");
    }

    @Test
    @DisplayName("A message that expires before the commit rolls all of it back.")
    void expired() throws Exception {
        MessageConsumer consumer = session.createConsumer(topic);
        publish(connection, queue, "taken");
        Session transacted = transacted();
        MessageConsumer taking = transacted.createConsumer(queue);
        expect(taking, "taken");
        send(transacted, topic, "beside it");
        MessageProducer producer = transacted.createProducer(topic);
        producer.setTimeToLive(50);
        producer.send(transacted.createTextMessage("short"));
        Thread.sleep(100);
        assertThrows(TransactionRolledBackException.class, transacted::commit);
        expectNothing(consumer);
        Message taken = next(taking);
        assertEquals("taken", taken.getBody(String.class));
        assertTrue(taken.getJMSRedelivered());
        transacted.commit();
    }

    @Test
    @DisplayName("Outside of transactions the same connection's messages go at once.")
    void notAll() throws Exception {
        MessageConsumer consumer = session.createConsumer(topic);
        Session transacted = transacted();
        send(transacted, topic, "later");
        publish(connection, topic, "at once");
        expect(consumer, "at once");
        transacted.commit();
        expect(consumer, "later");
    }

    @Test
    @DisplayName("A commit to a gateway that was killed fails; after its start there is nothing of it.")
    void killed() throws Exception {
        Gateway gateway = ownGateway();
        Connection before = connectTo(gateway, null);
        publish(before, queue, "kept");
        Session transacted = transacted(before);
        expect(transacted.createConsumer(queue), "kept");
        send(transacted, queue, "never");
        gateway.kill();
        assertThrows(JMSException.class, transacted::commit);
        gateway.start();
        MessageConsumer after = auto(connectTo(gateway, null)).createConsumer(queue);
        Message kept = next(after);
        assertEquals("kept", kept.getBody(String.class));
        assertTrue(kept.getJMSRedelivered());
        expectNothing(after);
    }

    @Test
    @DisplayName("Over a restart a failover client's commit says that it was rolled back; it goes on.")
    void failsOver() throws Exception {
        Gateway gateway = ownGateway();
        Connection failing = open(failover(gateway), null);
        Session transacted = transacted(failing);
        MessageProducer producer = transacted.createProducer(queue);
        producer.send(transacted.createTextMessage("never"));
        gateway.restart();
        publish(failing, topic, "the client is connected again");
        assertThrows(TransactionRolledBackException.class, transacted::commit);
        producer.send(transacted.createTextMessage("again"));
        transacted.commit();
        MessageConsumer consumer = auto(failing).createConsumer(queue);
        expect(consumer, "again");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("What was committed is there after a kill.")
    void committedIsKept() throws Exception {
        Gateway gateway = ownGateway();
        Connection before = connectTo(gateway, null);
        Session transacted = transacted(before);
        for (int i = 0; i < 20; i++) {
            send(transacted, queue, Integer.toString(i));
            transacted.commit();
        }
        gateway.crash();
        MessageConsumer after = auto(connectTo(gateway, null)).createConsumer(queue);
        expectNumbers(after, 0, 20);
        expectNothing(after);
    }
}
