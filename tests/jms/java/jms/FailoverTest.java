package jms;

import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;

/** A failover URI over the gateway's restart: nothing is lost, and nobody has to do anything. */
@ParameterizedClass
@EnumSource(Kept.class)
class FailoverTest extends KeptClient {
    private static final int COUNT = 300;

    private Gateway gateway;
    private final Heard heard = new Heard();

    @BeforeEach
    void launch() throws Exception {
        gateway = ownGateway();
    }

    private Connection failingOver(String clientId) throws Exception {
        return open(failover(gateway), clientId);
    }

    private interface Harm {
        void happen() throws Exception;
    }

    private static Set<String> numbers(int count) {
        return IntStream.range(0, count)
                .mapToObj(Integer::toString)
                .collect(Collectors.toCollection(LinkedHashSet::new));
    }

    private static <T> FutureTask<T> aside(Callable<T> work) {
        FutureTask<T> task = new FutureTask<>(work);
        new Thread(task).start();
        return task;
    }

    /** Send so many numbers one by one, each accepted before the next; `half` in the middle. */
    private void sendNumbers(int first, int count, Harm half) throws Exception {
        Session session = auto(failingOver(null));
        MessageProducer producer = session.createProducer(null);
        for (int i = first; i < first + count; i++) {
            if (i == first + count / 2) {
                half.happen();
            }
            producer.send(place, session.createTextMessage(Integer.toString(i)));
        }
    }

    private void nothingIsLostOver(Harm harm) throws Exception {
        List<FutureTask<Void>> harmed = new ArrayList<>();
        sendNumbers(0, COUNT, () -> harmed.add(aside(() -> {
            harm.happen();
            return null;
        })));
        harmed.get(0).get();
        heard.expectAtLeast(numbers(COUNT));
    }

    @Test
    @DisplayName("A listener gets all that is published before, over and after a restart.")
    void listenerOverRestart() throws Exception {
        receivingAt(failingOver("c")).setMessageListener(heard);
        nothingIsLostOver(gateway::restart);
    }

    @Test
    @DisplayName("A listener gets all that is published before, over and after a kill.")
    void listenerOverKill() throws Exception {
        receivingAt(failingOver("c")).setMessageListener(heard);
        nothingIsLostOver(gateway::crash);
    }

    @Test
    @DisplayName("A receive that waits while the gateway restarts gets what is published after.")
    void receiveOverRestart() throws Exception {
        MessageConsumer consumer = receivingAt(failingOver("c"));
        gateway.restart();
        publish(failingOver(null), place, "after");
        expect(consumer, "after");
    }

    @Test
    @DisplayName("What a client had prefetched when the gateway died comes to it again, none passed over.")
    void prefetchedOverKill() throws Exception {
        Connection client = failingOver("c");
        MessageConsumer consumer = receivingAt(client);
        publishMany(client, place, 500);
        expect(consumer, "0");
        gateway.crash();
        for (int expected = 1; expected < 500; ) {
            int number = Integer.parseInt(text(consumer));
            // One whose outcome was on its way may come twice; none is passed over.
            assertTrue(number <= expected, number + " came where " + expected + " was due");
            expected = Math.max(expected, number + 1);
        }
        expectNothing(consumer);
    }

    @Test
    @DisplayName("What was received and not acknowledged before a kill comes again, marked so.")
    void unacknowledgedOverKill() throws Exception {
        Session session = session(connectTo(gateway, "c"), Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = kept.consumer(session, place);
        publish(connectTo(gateway, null), place, "one");
        expect(consumer, "one");
        gateway.crash();
        expectCounted(receivingAt(connectTo(gateway, "c")), "one", 2);
    }

    @Test
    @DisplayName("Three producers under load over a kill and a restart: every message arrives.")
    void underLoad() throws Exception {
        receivingAt(failingOver("c")).setMessageListener(heard);
        List<FutureTask<Void>> producers = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            int first = i * COUNT / 2;
            producers.add(aside(() -> {
                sendNumbers(first, COUNT / 2, () -> { });
                return null;
            }));
        }
        List<String> early = heard.next(COUNT / 10);  // then all of them are at work
        gateway.crash();
        gateway.restart();
        for (FutureTask<Void> producer : producers) {
            producer.get();
        }
        Set<String> missing = numbers(3 * COUNT / 2);
        missing.removeAll(early);
        heard.expectAtLeast(missing);
    }
}
