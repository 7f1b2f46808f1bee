package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import jakarta.jms.InvalidClientIDRuntimeException;
import jakarta.jms.InvalidDestinationRuntimeException;
import jakarta.jms.JMSConsumer;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSProducer;
import jakarta.jms.Message;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** The simplified API of JMS 2.0: contexts, their producers and consumers. */
class ContextTest extends Client {
    private final List<JMSContext> contexts = new ArrayList<>();

    @AfterEach
    void closeContexts() {
        contexts.forEach(JMSContext::close);
    }

    private JMSContext context(String clientId) {
        return context(clientId, JMSContext.AUTO_ACKNOWLEDGE);
    }

    private JMSContext context(String clientId, int mode) {
        JMSContext context = new JmsConnectionFactory(uri(Gateway.SHARED, "")).createContext(mode);
        contexts.add(context);
        if (clientId != null) {
            context.setClientID(clientId);
        }
        return context;
    }

    @Test
    @DisplayName("A context sends and receives, with properties, in a line.")
    void sendAndReceive() {
        JMSContext context = context(null);
        Topic topic = context.createTopic(name("context"));
        JMSConsumer consumer = context.createConsumer(topic);
        context.createProducer().setProperty("n", 7).setPriority(2).send(topic, "one");
        Message message = consumer.receive(PATIENCE);
        assertEquals("one", body(message));
        assertNull(consumer.receiveNoWait());
    }

    private static String body(Message message) {
        try {
            assertEquals(7, message.getIntProperty("n"));
            assertEquals(2, message.getJMSPriority());
            return message.getBody(String.class);
        } catch (jakarta.jms.JMSException error) {
            throw new IllegalStateException(error);
        }
    }

    @Test
    @DisplayName("Bodies of all kinds are sent and received as they are.")
    void bodies() {
        JMSContext context = context(null);
        Topic topic = context.createTopic(name("bodies"));
        JMSConsumer consumer = context.createConsumer(topic);
        JMSProducer producer = context.createProducer();
        producer.send(topic, "text").send(topic, new byte[] {1, 2}).send(topic, Map.of("n", 1));
        assertEquals("text", consumer.receiveBody(String.class, PATIENCE));
        assertEquals(2, consumer.receiveBody(byte[].class, PATIENCE).length);
        assertEquals(1, consumer.receiveBody(Map.class, PATIENCE).get("n"));
    }

    @Test
    @DisplayName("A durable consumer of a context is remembered until it is unsubscribed.")
    void durable() {
        JMSContext context = context(name("c"));
        Topic topic = context.createTopic(name("durable"));
        context.createDurableConsumer(topic, "s").close();
        context.createProducer().send(topic, "one");
        JMSConsumer again = context.createDurableConsumer(topic, "s");
        assertEquals("one", again.receiveBody(String.class, PATIENCE));
        again.close();
        context.unsubscribe("s");
        assertThrows(InvalidDestinationRuntimeException.class, () -> context.unsubscribe("s"));
    }

    @Test
    @DisplayName("Contexts made of one another share a connection, and a shared subscription.")
    void shared() {
        JMSContext context = context(null);
        JMSContext other = context.createContext(JMSContext.AUTO_ACKNOWLEDGE);
        contexts.add(0, other);
        Topic topic = context.createTopic(name("shared"));
        JMSConsumer one = context.createSharedConsumer(topic, name("s"));
        JMSConsumer two = other.createSharedConsumer(topic, name("s"));
        context.createProducer().send(topic, "one").send(topic, "two");
        assertEquals("one", one.receiveBody(String.class, PATIENCE));
        assertEquals("two", two.receiveBody(String.class, PATIENCE));
    }

    @Test
    @DisplayName("A context in CLIENT mode acknowledges what it has received, as a whole.")
    void acknowledge() {
        JMSContext context = context(name("c"), JMSContext.CLIENT_ACKNOWLEDGE);
        Topic topic = context.createTopic(name("acknowledge"));
        JMSConsumer consumer = context.createDurableConsumer(topic, "s");
        context.createProducer().send(topic, "one").send(topic, "two").send(topic, "three");
        assertEquals("one", consumer.receiveBody(String.class, PATIENCE));
        assertEquals("two", consumer.receiveBody(String.class, PATIENCE));
        context.acknowledge();
        context.close();
        JMSConsumer again = context(name("c")).createDurableConsumer(topic, "s");
        assertEquals("three", again.receiveBody(String.class, PATIENCE));
    }

    @Test
    @DisplayName("A client id that is in use is an InvalidClientIDRuntimeException.")
    void clientIdInUse() {
        context(name("c")).start();
        assertThrows(InvalidClientIDRuntimeException.class, () -> context(name("c")).start());
    }

    @Test
    @DisplayName("An asynchronous send of a context completes.")
    void asynchronous() throws Exception {
        JMSContext context = context(null);
        BlockingQueue<String> completed = new LinkedBlockingQueue<>();
        context.createProducer().setAsync(new jakarta.jms.CompletionListener() {
            @Override
            public void onCompletion(Message message) {
                completed.add("completed");
            }

            @Override
            public void onException(Message message, Exception exception) {
                completed.add(exception.toString());
            }
        }).send(context.createTopic(name("async")), "one");
        assertEquals("completed", completed.poll(PATIENCE, TimeUnit.MILLISECONDS));
    }
}
