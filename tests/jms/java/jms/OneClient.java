package jms;

import jakarta.jms.Connection;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import org.junit.jupiter.api.BeforeEach;

/** A story of one client: its connection (with a client id), a session, a topic and a queue. */
abstract class OneClient extends Client {
    Connection connection;
    Session session;
    Topic topic;
    Queue queue;

    @BeforeEach
    final void connectTheClient() throws Exception {
        connection = connect(name("c"));
        session = auto(connection);
        topic = session.createTopic(name("topic"));
        queue = session.createQueue(name("queue"));
    }

    /** The subscription `s` exists, and these texts wait in it. */
    final void given(String... texts) throws Exception {
        waiting(connection, topic, texts);
    }

    /** A consumer of the subscription `s`, in a session of its own. */
    final MessageConsumer again() throws Exception {
        return durable(connection, topic);
    }
}
