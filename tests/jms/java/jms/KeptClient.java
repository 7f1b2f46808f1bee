package jms;

import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.Parameter;

/** A story of one client that is told of each: its durable subscriptions, and a queue. */
abstract class KeptClient extends Client {
    @Parameter
    Kept kept;

    Connection connection;
    Destination place;
    /** The session of the last `receivingIn`. */
    Session own;

    @BeforeEach
    final void connectTheClient() throws Exception {
        reconnect("");
        place = kept.named(auto(connection), name("place"));
    }

    /** The client anew, with these options; it was connected before. */
    final void reconnect(String options) throws Exception {
        if (connection != null) {
            connection.close();
        }
        connection = connectWith(options, name("c"));
    }

    /** These texts wait. */
    final void given(String... texts) throws Exception {
        kept.keep(connection, place, texts);
    }

    /** A consumer in a session of its own with this acknowledge mode. */
    final MessageConsumer receivingIn(int mode) throws Exception {
        own = session(connection, mode);
        return kept.consumer(own, place);
    }

    /** A consumer in a session of its own. */
    final MessageConsumer again() throws Exception {
        return receivingAt(connection);
    }

    /** A consumer of this connection, in a session of its own. */
    final MessageConsumer receivingAt(Connection there) throws Exception {
        return kept.consumer(auto(there), place);
    }
}
