package jms;

import jakarta.jms.Connection;
import jakarta.jms.Topic;
import org.junit.jupiter.api.BeforeEach;

/**
 * A story of connections that share: two without a client id, one of a client, and a topic. None
 * of them prefetches, so that it is known who has what.
 */
abstract class SharedClients extends Client {
    Connection one;
    Connection other;
    Connection client;
    Topic topic;

    @BeforeEach
    final void connectAll() throws Exception {
        one = connectWith(NO_PREFETCH);
        other = connectWith(NO_PREFETCH);
        client = connectWith(NO_PREFETCH, name("c"));
        topic = auto(one).createTopic(name("topic"));
    }
}
