package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.JMSSecurityException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.List;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** TLS, users and permissions. Alice may do all, the worker may use the topic `open`. */
class SecurityTest extends Client {
    private static final String WORKERS_PASSWORD = "b=ee, zz";
    /** Longer than the gateway gives a login. */
    private static final long PAUSE = 4_500;

    private static Gateway gateway;

    private final List<Connection> made = new ArrayList<>();

    @BeforeAll
    static void launch() throws Exception {
        gateway = Gateway.launchSecured();
    }

    @AfterAll
    static void end() throws Exception {
        gateway.end();
    }

    @AfterEach
    void closeMade() throws JMSException {
        for (Connection connection : made) {
            connection.close();
        }
    }

    private static String secured(String options) {
        String stores = "transport.storeType=PKCS12&transport.trustStorePassword=secret"
                + "&transport.trustStoreLocation=" + gateway.folder + "/trust.p12";
        return "amqps://localhost:" + gateway.port + "?jms.requestTimeout=20000&" + stores + options;
    }

    private static String certified(String options) {
        return secured("&transport.keyStorePassword=secret&transport.keyStoreLocation="
                + gateway.folder + "/alice.p12" + options);
    }

    private Connection logIn(String uri, String user, String password) throws JMSException {
        Connection connection = new JmsConnectionFactory(user, password, uri).createConnection();
        made.add(connection);
        connection.start();
        return connection;
    }

    private Connection alice() throws JMSException {
        return logIn(secured(""), "alice", "wonderland");
    }

    private Connection worker() throws JMSException {
        return logIn(secured(""), "worker", WORKERS_PASSWORD);
    }

    private void servedBy(Connection connection) throws JMSException {
        Topic topic = auto(connection).createTopic(name("t"));
        MessageConsumer consumer = auto(connection).createConsumer(topic);
        publish(connection, topic, "in");
        expect(consumer, "in");
    }

    private static void forbidden(String words, Executable call) {
        JMSSecurityException refused = assertThrows(JMSSecurityException.class, call);
        assertTrue(refused.getMessage().contains(words), refused.getMessage());
    }

    @Test
    @DisplayName("A user with a password logs in by SCRAM-SHA-256, and the client believes the gateway.")
    void scram() throws Exception {
        servedBy(logIn(secured("&amqp.saslMechanisms=SCRAM-SHA-256"), "alice", "wonderland"));
    }

    @Test
    @DisplayName("Left to choose, the client logs in by the best that is offered.")
    void chosen() throws Exception {
        servedBy(alice());
        servedBy(logIn(certified(""), null, null));
    }

    @Test
    @DisplayName("A user with a password logs in by PLAIN.")
    void plain() throws Exception {
        servedBy(logIn(secured("&amqp.saslMechanisms=PLAIN"), "alice", "wonderland"));
    }

    @Test
    @DisplayName("A client with a certificate logs in by EXTERNAL, without a password.")
    void external() throws Exception {
        servedBy(logIn(certified("&amqp.saslMechanisms=EXTERNAL"), null, null));
    }

    @Test
    @DisplayName("A wrong password and an unknown user are a JMSSecurityException, by each mechanism.")
    void refused() {
        for (String mechanism : new String[] {"SCRAM-SHA-256", "PLAIN"}) {
            String uri = secured("&amqp.saslMechanisms=" + mechanism);
            assertThrows(JMSSecurityException.class, () -> logIn(uri, "alice", "looking-glass"));
            assertThrows(JMSSecurityException.class, () -> logIn(uri, "eve", "wonderland"));
        }
    }

    @Test
    @DisplayName("Without a login there is no way in.")
    void anonymous() {
        assertThrows(JMSSecurityException.class, () -> logIn(secured(""), null, null));
        String uri = secured("&amqp.saslLayer=false");
        assertThrows(JMSException.class, () -> logIn(uri, null, null));
    }

    @Test
    @DisplayName("A connection that is made now may be used much later.")
    void pauseBeforeOpen() throws Exception {
        Connection connection =
                new JmsConnectionFactory("alice", "wonderland", secured("")).createConnection();
        made.add(connection);
        Thread.sleep(PAUSE);
        connection.start();
        servedBy(connection);
    }

    @Test
    @DisplayName("Who may not publish gets a JMSSecurityException, and the session goes on.")
    void publishForbidden() throws Exception {
        Session session = auto(worker());
        forbidden("'worker'", () -> session.createProducer(session.createTopic("closed")));
        MessageConsumer consumer = session.createConsumer(session.createTopic("open"));
        session.createProducer(session.createTopic("open")).send(session.createTextMessage("hello"));
        expect(consumer, "hello");
    }

    @Test
    @DisplayName("A producer without a destination gets it for each message by itself.")
    void anonymousProducerForbidden() throws Exception {
        Session session = auto(worker());
        MessageProducer producer = session.createProducer(null);
        TextMessage message = session.createTextMessage("hello");
        producer.send(session.createTopic("open"), message);
        forbidden("'closed'", () -> producer.send(session.createTopic("closed"), message));
        producer.send(session.createTopic("open"), message);
    }

    @Test
    @DisplayName("Who may not consume gets a JMSSecurityException.")
    void consumeForbidden() throws Exception {
        Session session = auto(worker());
        forbidden("consume", () -> session.createConsumer(session.createTopic("closed")));
        forbidden("consume", () -> session.createConsumer(session.createQueue("closed")));
    }

    @Test
    @DisplayName("Who may not create makes neither durable subscriptions nor temporary destinations.")
    void createForbidden() throws Exception {
        Session session = auto(worker());
        Topic open = session.createTopic("open");
        forbidden("create", () -> session.createSharedDurableConsumer(open, name("s")));
        session.createSharedConsumer(open, name("s")).close();
        forbidden("create", session::createTemporaryQueue);
    }

    @Test
    @DisplayName("Who may not create doesn't unsubscribe others; who may does.")
    void unsubscribeForbidden() throws Exception {
        Session alice = auto(alice());
        alice.createSharedDurableConsumer(alice.createTopic("open"), name("s")).close();
        Session worker = auto(worker());
        forbidden("create or manage", () -> worker.unsubscribe(name("s")));
        alice.unsubscribe(name("s"));
    }

    @Test
    @DisplayName("A queue is made by who may make it.")
    void queueForbidden() throws Exception {
        Session alice = auto(alice());
        Queue queue = alice.createQueue(name("q"));
        alice.createProducer(queue).send(alice.createTextMessage("kept"));
        expect(alice.createConsumer(queue), "kept");
        Session worker = auto(worker());
        forbidden("publish", () -> worker.createProducer(queue));
        assertEquals(2, made.size());
    }
}
