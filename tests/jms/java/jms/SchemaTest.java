package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.CompletionListener;
import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import jakarta.jms.TransactionRolledBackException;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Topics with a schema, as a JMS client sees them that sends what it doesn't allow. */
class SchemaTest extends Client {
    private static final String FITS = "{\"id\": 1}";
    private static final String MORE = "{\"id\": 2}";
    private static final String MISFIT = "{\"id\": \"two\"}";
    private static final String SENTENCE = "/id: \"two\" is not of type \"integer\"";

    private static Gateway gateway;

    private Connection connection;

    @BeforeAll
    static void launch() throws Exception {
        gateway = Gateway.launchChecked();
    }

    @AfterAll
    static void end() throws Exception {
        gateway.end();
    }

    @BeforeEach
    void connectTheClient() throws Exception {
        connection = connectTo(gateway, null);
    }

    private static Session transacted(Connection connection) throws JMSException {
        return connection.createSession(true, Session.SESSION_TRANSACTED);
    }

    private static void send(Session session, Destination to, String... texts) throws JMSException {
        MessageProducer producer = session.createProducer(to);
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
    }

    private static void expectMisfit(JMSException refused) {
        assertTrue(refused.getMessage().contains(SENTENCE), refused.getMessage());
        assertTrue(refused.getMessage().contains("[condition = amqp:decode-error]"), refused.getMessage());
    }

    @Test
    @DisplayName("What a schema refuses is a JMSException of its send, with field and value.")
    void refused() throws Exception {
        Queue queue = auto(connection).createQueue(name("refused"));
        Session session = auto(connection);
        MessageConsumer consumer = session.createConsumer(queue);
        send(session, queue, FITS);
        expectMisfit(assertThrows(JMSException.class, () -> send(session, queue, MISFIT)));
        send(session, queue, MORE);
        expect(consumer, FITS, MORE);
        expectNothing(consumer);
    }

    @Test
    @DisplayName("A commit fails if a message of its transaction was refused; the exception listener hears why.")
    void refusedInATransaction() throws Exception {
        Topic topic = auto(connection).createTopic(name("refused"));
        MessageConsumer consumer = auto(connection).createConsumer(topic);
        Connection own = connectTo(gateway, null);
        BlockingQueue<JMSException> heard = new LinkedBlockingQueue<>();
        own.setExceptionListener(heard::add);
        Session transacted = transacted(own);
        send(transacted, topic, FITS, MISFIT, MORE);
        assertThrows(TransactionRolledBackException.class, transacted::commit);
        expectNothing(consumer);
        expectMisfit(heard.poll(PATIENCE, TimeUnit.MILLISECONDS));
        send(transacted, topic, FITS, MISFIT);
        transacted.rollback();
        send(transacted, topic, MORE);
        transacted.commit();
        expect(consumer, MORE);
        expectNothing(consumer);
    }

    @Test
    @DisplayName("A completion listener hears of each message of a transaction.")
    void completions() throws Exception {
        Topic topic = auto(connection).createTopic(name("refused"));
        Session transacted = transacted(connection);
        MessageProducer producer = transacted.createProducer(topic);
        BlockingQueue<Message> heard = new LinkedBlockingQueue<>();
        BlockingQueue<Message> refused = new LinkedBlockingQueue<>();
        CompletionListener listener = new CompletionListener() {
            @Override
            public void onCompletion(Message message) {
                heard.add(message);
            }

            @Override
            public void onException(Message message, Exception why) {
                expectMisfit((JMSException) why);
                refused.add(message);
                heard.add(message);
            }
        };
        for (String text : new String[] {FITS, MISFIT, MORE}) {
            producer.send(transacted.createTextMessage(text), listener);
        }
        assertThrows(TransactionRolledBackException.class, transacted::commit);
        Set<String> texts = new HashSet<>();
        for (int count = 0; count < 3; count++) {
            texts.add(heard.poll(PATIENCE, TimeUnit.MILLISECONDS).getBody(String.class));
        }
        assertEquals(Set.of(FITS, MISFIT, MORE), texts);
        // What comes after the misfit may share its fate: the transaction is spoiled.
        Set<String> gone = new HashSet<>();
        for (Message message : refused) {
            gone.add(message.getBody(String.class));
        }
        assertTrue(gone.contains(MISFIT));
    }

    @Test
    @DisplayName("With jms.forceSyncSend a send in a transaction throws, and so does its commit.")
    void synchronous() throws Exception {
        Topic topic = auto(connection).createTopic(name("refused"));
        MessageConsumer consumer = auto(connection).createConsumer(topic);
        Session transacted = transacted(open(uri(gateway, "jms.forceSyncSend=true"), null));
        for (int round = 0; round < 2; round++) {
            send(transacted, topic, FITS);
            expectMisfit(assertThrows(JMSException.class, () -> send(transacted, topic, MISFIT)));
            if (round == 0) {
                transacted.rollback();
            } else {
                assertThrows(TransactionRolledBackException.class, transacted::commit);
            }
        }
        send(transacted, topic, MORE);
        transacted.commit();
        expect(consumer, MORE);
        expectNothing(consumer);
    }

    @Test
    @DisplayName("What is kept apart is sent and committed, and lies among the topic's dead letters with its reason.")
    void kept() throws Exception {
        Session session = auto(connection);
        Topic topic = session.createTopic(name("kept"));
        MessageConsumer consumer = session.createConsumer(topic);
        Session transacted = transacted(connection);
        send(transacted, topic, FITS, MISFIT);
        transacted.commit();
        send(auto(connection), topic, MISFIT);
        expect(consumer, FITS);
        expectNothing(consumer);
        MessageConsumer letters = session.createConsumer(session.createQueue("DLQ.topic/" + topic.getTopicName()));
        expect(letters, MISFIT, MISFIT);
        expectNothing(letters);
    }
}
