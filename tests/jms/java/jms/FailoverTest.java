package jms;

import jakarta.jms.Connection;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.concurrent.FutureTask;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** A failover URI over the gateway's restart: nothing is lost, and nobody has to do anything. */
class FailoverTest extends Client {
    private static final int COUNT = 300;

    private Gateway gateway;
    private Topic topic;
    private final Heard heard = new Heard();

    @BeforeEach
    void launch() throws Exception {
        gateway = ownGateway();
        topic = auto(failingOver(null)).createTopic("t");
    }

    private Connection failingOver(String clientId) throws Exception {
        return open(failover(gateway), clientId);
    }

    private interface Harm {
        void happen() throws Exception;
    }

    /** Publish numbers one by one, harm done in the middle; all of them must be heard. */
    private void nothingIsLostOver(Harm harm) throws Exception {
        Session session = auto(failingOver(null));
        MessageProducer producer = session.createProducer(topic);
        FutureTask<Void> harmed = new FutureTask<>(() -> {
            harm.happen();
            return null;
        });
        for (int i = 0; i < COUNT; i++) {
            if (i == COUNT / 2) {
                new Thread(harmed).start();
            }
            producer.send(session.createTextMessage(Integer.toString(i)));
        }
        harmed.get();
        Set<String> missing = IntStream.range(0, COUNT)
                .mapToObj(Integer::toString)
                .collect(Collectors.toCollection(LinkedHashSet::new));
        heard.expectAtLeast(missing);
    }

    @Test
    @DisplayName("A durable listener gets all that is published before, over and after a restart.")
    void listenerOverRestart() throws Exception {
        durable(failingOver("c"), topic).setMessageListener(heard);
        nothingIsLostOver(gateway::restart);
    }

    @Test
    @DisplayName("A durable listener gets all that is published before, over and after a kill.")
    void listenerOverKill() throws Exception {
        durable(failingOver("c"), topic).setMessageListener(heard);
        nothingIsLostOver(gateway::crash);
    }

    @Test
    @DisplayName("Shared consumers on failover URIs get all between them over a kill.")
    void sharedOverKill() throws Exception {
        for (int i = 0; i < 3; i++) {
            shareDurable(failingOver(null), topic).setMessageListener(heard);
        }
        nothingIsLostOver(gateway::crash);
    }

    @Test
    @DisplayName("A receive that waits while the gateway restarts gets what is published after.")
    void receiveOverRestart() throws Exception {
        MessageConsumer consumer = durable(failingOver("c"), topic);
        gateway.restart();
        publish(failingOver(null), topic, "after");
        expect(consumer, "after");
    }

    @Test
    @DisplayName("What was received and not acknowledged before a kill comes again, marked so.")
    void unacknowledgedOverKill() throws Exception {
        Session session = session(connectTo(gateway, "c"), Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createDurableConsumer(topic, "s");
        publish(connectTo(gateway, null), topic, "one");
        expect(consumer, "one");
        gateway.crash();
        expectCounted(durable(connectTo(gateway, "c"), topic), "one", 2);
    }
}
