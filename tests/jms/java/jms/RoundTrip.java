package jms;

import static org.junit.jupiter.api.Assertions.assertInstanceOf;

import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import org.junit.jupiter.api.BeforeEach;

/** A message goes out and comes in: one client, a producer and a consumer of its topic. */
abstract class RoundTrip extends OneClient {
    MessageProducer producer;
    MessageConsumer consumer;

    @BeforeEach
    final void pair() throws Exception {
        consumer = session.createConsumer(topic);
        producer = session.createProducer(topic);
    }

    final Message through(Message sent) throws Exception {
        producer.send(sent);
        return next(consumer);
    }

    final <T extends Message> T through(Message sent, Class<T> kind) throws Exception {
        return assertInstanceOf(kind, through(sent));
    }
}
