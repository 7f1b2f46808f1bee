package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import jakarta.jms.Connection;
import jakarta.jms.ExceptionListener;
import jakarta.jms.IllegalStateException;
import jakarta.jms.InvalidClientIDException;
import jakarta.jms.JMSException;
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
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Connections, client ids and sessions: who may be there, and how it ends. */
class ConnectionTest extends Client {
    @Test
    @DisplayName("A client id that is in use is an InvalidClientIDException; its owner goes on.")
    void clientIdInUse() throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = auto(connection).createTopic(name("owner"));
        MessageConsumer consumer = durable(connection, topic);
        assertThrows(InvalidClientIDException.class, () -> connect(name("c")));
        publish(connection, topic, "one");
        expect(consumer, "one");
    }

    @Test
    @DisplayName("A client id in the URI that is in use is refused likewise.")
    void clientIdInUri() throws Exception {
        connect(name("c"));
        String uri = uri(Gateway.SHARED, "jms.clientID=" + name("c"));
        assertThrows(InvalidClientIDException.class, () -> open(uri, null));
    }

    @Test
    @DisplayName("A client id is free again as soon as its connection has closed.")
    void clientIdFreed() throws Exception {
        for (int i = 0; i < 10; i++) {
            connect(name("c")).close();
        }
    }

    @Test
    @DisplayName("A client id is free again after the gateway has died.")
    void clientIdFreedByDeath() throws Exception {
        Gateway gateway = ownGateway();
        connectTo(gateway, "c");
        gateway.crash();
        assertEquals("c", connectTo(gateway, "c").getClientID());
    }

    @Test
    @DisplayName("Connections without a client id never clash.")
    void generatedIds() throws Exception {
        List<String> ids = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            ids.add(connect().getClientID());
        }
        assertEquals(20, ids.stream().distinct().count());
        assertNotEquals(null, ids.get(0));
    }

    @Test
    @DisplayName("The client says that it speaks Jakarta Messaging 3.1.")
    void metadata() throws Exception {
        assertEquals(3, connect().getMetaData().getJMSMajorVersion());
        assertEquals(1, connect().getMetaData().getJMSMinorVersion());
    }

    @Test
    @DisplayName("A connection that is closed without ever being used does no harm.")
    void unused() throws Exception {
        Connection connection = new org.apache.qpid.jms.JmsConnectionFactory(uri(Gateway.SHARED, ""))
                .createConnection();
        connection.close();
        connect();
    }

    @Test
    @DisplayName("A hundred sessions of one connection each receive.")
    void manySessions() throws Exception {
        Connection connection = connect();
        Topic topic = auto(connection).createTopic(name("sessions"));
        List<MessageConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            consumers.add(auto(connection).createConsumer(topic));
        }
        publish(connection, topic, "one");
        for (MessageConsumer consumer : consumers) {
            expect(consumer, "one");
        }
    }

    @Test
    @DisplayName("Links come and go a hundred times in one session.")
    void manyLinks() throws Exception {
        Connection connection = connect(name("c"));
        Session session = auto(connection);
        Topic topic = session.createTopic(name("links"));
        for (int i = 0; i < 100; i++) {
            session.createConsumer(topic).close();
            session.createProducer(topic).close();
            session.createDurableConsumer(topic, "s").close();
        }
    }

    @Test
    @DisplayName("A closed session takes its consumers with it and no others.")
    void closedSession() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        Topic topic = session.createTopic(name("closed"));
        MessageConsumer gone = session.createConsumer(topic);
        MessageConsumer stays = auto(connection).createConsumer(topic);
        session.close();
        publish(connection, topic, "one");
        expect(stays, "one");
        assertThrows(IllegalStateException.class, gone::receiveNoWait);
    }

    @Test
    @DisplayName("Without failover the exception listener hears that the gateway died.")
    void exceptionListener() throws Exception {
        Gateway gateway = ownGateway();
        Connection connection = connectTo(gateway, null);
        BlockingQueue<JMSException> heard = new LinkedBlockingQueue<>();
        ExceptionListener listener = heard::add;
        connection.setExceptionListener(listener);
        gateway.kill();
        assertNotNull(heard.poll(PATIENCE, TimeUnit.MILLISECONDS));
    }

    @Test
    @DisplayName("A receive that waits ends when its connection closes.")
    void receiveEndsWithClose() throws Exception {
        Connection connection = connect();
        Session session = auto(connection);
        MessageConsumer consumer = session.createConsumer(session.createTopic(name("waiting")));
        BlockingQueue<String> ended = new LinkedBlockingQueue<>();
        Thread thread = new Thread(() -> {
            try {
                ended.add("received " + consumer.receive());
            } catch (JMSException error) {
                ended.add("failed");
            }
        });
        thread.start();
        connection.close();
        assertNotNull(ended.poll(PATIENCE, TimeUnit.MILLISECONDS));
    }

    @Test
    @DisplayName("A connection on which nothing happens is kept, whatever silence the client allows.")
    void idle() throws Exception {
        Connection connection = connectWith("amqp.idleTimeout=2000");
        Heard failures = new Heard();
        connection.setExceptionListener(error -> failures.onException(null, error));
        Session session = auto(connection);
        Topic topic = session.createTopic(name("idle"));
        MessageConsumer consumer = session.createConsumer(topic);
        Thread.sleep(4_500);
        publish(connection, topic, "one");
        expect(consumer, "one");
        failures.expectNothing();
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "amqp.saslLayer=false", "jms.awaitClientID=false", "amqp.vhost=elsewhere", "amqp.vhost=",
        "amqp.saslMechanisms=ANONYMOUS", "amqp.channelMax=10", "amqp.traceFrames=false",
        "transport.tcpNoDelay=false", "jms.useDaemonThread=true"
    })
    @DisplayName("However the client is told to connect, it is served.")
    void options(String option) throws Exception {
        Connection connection = connectWith(option);
        Session session = auto(connection);
        Topic topic = session.createTopic(name("options"));
        MessageConsumer consumer = session.createConsumer(topic);
        publish(connection, topic, "one");
        expect(consumer, "one");
    }

    @Test
    @DisplayName("A client that logs in and opens its connection much later is served.")
    void openedLater() throws Exception {
        Connection connection = new org.apache.qpid.jms.JmsConnectionFactory(uri(Gateway.SHARED, ""))
                .createConnection();
        Thread.sleep(1_000);
        connection.setClientID(name("late"));
        connection.start();
        assertEquals(name("late"), connection.getClientID());
        connection.close();
    }
}
