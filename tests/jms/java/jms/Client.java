package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.ServerSession;
import jakarta.jms.ServerSessionPool;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.function.Executable;

/** What the tests share: connections that end with the test, names of its own, plain texts. */
abstract class Client {
    /** Milliseconds that a message may take before a test gives up; the machine may be shared. */
    static final long PATIENCE = 60_000;
    /** Milliseconds without a message after which there is none; every drain is answered sooner. */
    static final long SILENCE = 300;
    /** A consumer gets what it asks for, one message at a time, and holds nothing else. */
    static final String NO_PREFETCH = "jms.prefetchPolicy.all=0";
    /** The client's own acknowledge mode, for each message by itself. */
    static final int INDIVIDUAL = 101;
    /** The client's own acknowledge mode that takes messages as settled. */
    static final int NO_ACKNOWLEDGE = 257;
    /** What the client can say of a message that it acknowledges. */
    static final int ACCEPTED = 1;
    static final int REJECTED = 2;
    static final int RELEASED = 3;
    static final int MODIFIED = 4;
    static final int UNDELIVERABLE = 5;
    /** No call waits for ever for an answer. */
    private static final String LIMITS = "jms.requestTimeout=20000&jms.sendTimeout=20000&jms.closeTimeout=20000";

    /** Nor over starts of the gateway, which take their time on a loaded machine. */
    private static final String PATIENT = "jms.requestTimeout=60000&jms.sendTimeout=60000&jms.closeTimeout=20000";

    private final List<Connection> opened = new ArrayList<>();
    private final List<Gateway> gateways = new ArrayList<>();
    private final String own = UUID.randomUUID().toString().substring(0, 8);

    /** A gateway of the test's own, to be restarted and killed. */
    final Gateway ownGateway() throws Exception {
        Gateway gateway = Gateway.launch();
        gateways.add(gateway);
        return gateway;
    }

    @AfterEach
    final void closeAll() throws Exception {
        for (Connection connection : opened) {
            try {
                connection.close();
            } catch (JMSException gone) {
                // Its gateway may have been killed.
            }
        }
        for (Gateway gateway : gateways) {
            gateway.end();
        }
    }

    /** A name that no other test uses. */
    final String name(String word) {
        return word + "-" + own;
    }

    static String uri(Gateway gateway, String options) {
        String more = options.isEmpty() ? "" : "&" + options;
        return "amqp://127.0.0.1:" + gateway.port + "?" + LIMITS + more;
    }

    static String failover(Gateway gateway) {
        return "failover:(amqp://127.0.0.1:" + gateway.port + ")?" + PATIENT
                + "&failover.reconnectDelay=50&failover.maxReconnectDelay=200";
    }

    /** A started connection by this URI; with a client id unless it is null. */
    final Connection open(String uri, String clientId) throws JMSException {
        Connection connection = new JmsConnectionFactory(uri).createConnection();
        opened.add(connection);
        if (clientId != null) {
            connection.setClientID(clientId);
        }
        connection.start();
        return connection;
    }

    final Connection connect() throws JMSException {
        return open(uri(Gateway.SHARED, ""), null);
    }

    final Connection connect(String clientId) throws JMSException {
        return open(uri(Gateway.SHARED, ""), clientId);
    }

    final Connection connectWith(String options) throws JMSException {
        return connectWith(options, null);
    }

    final Connection connectWith(String options, String clientId) throws JMSException {
        return open(uri(Gateway.SHARED, options), clientId);
    }

    final Connection connectTo(Gateway gateway, String clientId) throws JMSException {
        return open(uri(gateway, ""), clientId);
    }

    static Session auto(Connection connection) throws JMSException {
        return connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    static Session session(Connection connection, int mode) throws JMSException {
        return connection.createSession(false, mode);
    }

    /** A pool of one session, for connection consumers. */
    static ServerSessionPool pool(Session session) {
        return () -> new ServerSession() {
            @Override
            public Session getSession() {
                return session;
            }

            @Override
            public void start() {
                session.run();
            }
        };
    }

    /** A consumer of the client's own durable subscription `s`, in a session of its own. */
    static MessageConsumer durable(Connection connection, Topic topic) throws JMSException {
        return auto(connection).createDurableConsumer(topic, "s");
    }

    /** A consumer of the shared durable subscription `s`, in a session of its own. */
    final MessageConsumer shareDurable(Connection connection, Topic topic) throws JMSException {
        return auto(connection).createSharedDurableConsumer(topic, name("s"));
    }

    /** A consumer of the shared subscription `s` that isn't durable, in a session of its own. */
    final MessageConsumer share(Connection connection, Topic topic) throws JMSException {
        return auto(connection).createSharedConsumer(topic, name("s"));
    }

    /** The durable subscription `s` exists, and these texts wait in it. */
    static void waiting(Connection connection, Topic topic, String... texts) throws JMSException {
        durable(connection, topic).close();
        publish(connection, topic, texts);
    }

    /** Publish these texts, one after the other, each accepted before the next. */
    static void publish(Connection connection, Destination to, String... texts) throws JMSException {
        Session session = auto(connection);
        MessageProducer producer = session.createProducer(to);
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
        session.close();
    }

    /** Publish numbered texts fast: not persistent ones, closed by one that is accepted. */
    static void publishMany(Connection connection, Destination to, int count) throws JMSException {
        Session session = auto(connection);
        MessageProducer producer = session.createProducer(to);
        producer.setDeliveryMode(jakarta.jms.DeliveryMode.NON_PERSISTENT);
        for (int i = 0; i < count - 1; i++) {
            producer.send(session.createTextMessage(Integer.toString(i)));
        }
        producer.setDeliveryMode(jakarta.jms.DeliveryMode.PERSISTENT);
        producer.send(session.createTextMessage(Integer.toString(count - 1)));
        session.close();
    }

    static Message next(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(PATIENCE);
        assertNotNull(message, "a message was waited for in vain");
        return message;
    }

    static String text(MessageConsumer consumer) throws JMSException {
        return ((TextMessage) next(consumer)).getText();
    }

    /** The next texts are these, in this order. */
    static void expect(MessageConsumer consumer, String... texts) throws JMSException {
        for (String text : texts) {
            assertEquals(text, text(consumer));
        }
    }

    /** The texts of the numbers from the first to before the last, in order. */
    static void expectNumbers(MessageConsumer consumer, int first, int last) throws JMSException {
        for (int i = first; i < last; i++) {
            expect(consumer, Integer.toString(i));
        }
    }

    /** The next message has this text, and says that this is its count-th delivery. */
    static void expectCounted(MessageConsumer consumer, String text, int count) throws JMSException {
        Message message = next(consumer);
        assertEquals(text, message.getBody(String.class));
        assertEquals(count > 1, message.getJMSRedelivered(), text);
        assertEquals(count, message.getIntProperty("JMSXDeliveryCount"), text);
    }

    /** The call is refused with this AMQP condition, which the client puts into its exception. */
    static void expectRefused(String condition, Executable call) {
        JMSException refused = assertThrows(JMSException.class, call);
        assertTrue(refused.getMessage().contains("[condition = " + condition + "]"), refused.getMessage());
    }

    /** What the gateway says of something by its node `$management`. */
    static Map<?, ?> managed(Session session, String type, String name) throws JMSException {
        TemporaryQueue answers = session.createTemporaryQueue();
        Message request = session.createMessage();
        request.setStringProperty("operation", "READ");
        request.setStringProperty("type", type);
        request.setStringProperty("name", name);
        request.setJMSReplyTo(answers);
        try (MessageProducer producer = session.createProducer(session.createQueue("$management"));
                MessageConsumer consumer = session.createConsumer(answers)) {
            producer.send(request);
            Message answer = next(consumer);
            assertEquals(200, answer.getIntProperty("statusCode"), answer.getStringProperty("statusDescription"));
            return (Map<?, ?>) ((ObjectMessage) answer).getObject();
        }
    }

    /** Acknowledge this message with an outcome of these. */
    static void settle(Message message, int outcome) throws JMSException {
        message.setIntProperty("JMS_AMQP_ACK_TYPE", outcome);
        message.acknowledge();
    }

    static void expectNothing(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(SILENCE);
        assertNull(message, () -> "there should be no message: " + message);
    }
}
