package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;

/** Messages of one group (JMSXGroupID) go to one of the consumers, in order, as long as it is there. */
@ParameterizedClass
@EnumSource(value = Kept.class, names = {"SHARED", "QUEUE"})
class GroupTest extends KeptClient {
    /** Send messages of these groups; each says its group and its number. */
    private void send(String... groups) throws Exception {
        Session session = auto(connection);
        MessageProducer producer = session.createProducer(place);
        for (int i = 0; i < groups.length; i++) {
            Message message = session.createTextMessage(groups[i] + i);
            message.setStringProperty("JMSXGroupID", groups[i]);
            producer.send(message);
        }
        session.close();
    }

    @Test
    @DisplayName("Each group has one consumer, which sees it in order; all consumers have groups.")
    void oneConsumerEach() throws Exception {
        given();
        List<MessageConsumer> consumers = List.of(again(), again());
        String[] groups = new String[100];
        for (int i = 0; i < groups.length; i++) {
            groups[i] = "group " + i % 10 + ": ";
        }
        send(groups);
        Map<String, Integer> consumerOf = new HashMap<>();
        Map<String, Integer> last = new HashMap<>();
        int[] counts = new int[2];
        for (int rounds = 0; counts[0] + counts[1] < groups.length && rounds < 100; rounds++) {
            for (int nth = 0; nth < 2; nth++) {
                for (Message got; (got = consumers.get(nth).receive(50)) != null; counts[nth]++) {
                    String group = got.getStringProperty("JMSXGroupID");
                    int number = Integer.parseInt(got.getBody(String.class).substring(group.length()));
                    Integer before = consumerOf.putIfAbsent(group, nth);
                    assertTrue(before == null || before == nth, group);
                    assertTrue(last.getOrDefault(group, -1) < number, group);
                    last.put(group, number);
                }
            }
        }
        assertEquals(groups.length, counts[0] + counts[1]);
        assertTrue(counts[0] > 0 && counts[1] > 0, () -> counts[0] + " and " + counts[1]);
    }

    @Test
    @DisplayName("A group waits for its consumer, others go on; without a group nobody waits.")
    void waits() throws Exception {
        reconnect(NO_PREFETCH);
        given();
        MessageConsumer first = receivingIn(Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer second = receivingIn(Session.CLIENT_ACKNOWLEDGE);
        send("a", "a", "b");
        expect(first, "a0");
        expect(second, "b2");
        expectNothing(second);
        publish(connection, place, "of no group");
        expect(second, "of no group");
        expect(first, "a1");
    }

    @Test
    @DisplayName("When its consumer goes, another one has the group, from where it was.")
    void moves() throws Exception {
        reconnect(NO_PREFETCH);
        given();
        MessageConsumer first = receivingIn(Session.CLIENT_ACKNOWLEDGE);
        Session session = own;
        MessageConsumer second = again();
        send("a", "a", "a", "a");
        Message done = next(first);
        assertEquals("a0", done.getBody(String.class));
        done.acknowledge();
        expect(first, "a1");
        expectNothing(second);
        session.close();
        expectCounted(second, "a1", 2);
        expect(second, "a2", "a3");
    }

    @Test
    @DisplayName("Groups keep their order over a kill of the gateway.")
    void survivesKill() throws Exception {
        Gateway gateway = ownGateway();
        connection = connectTo(gateway, "c");
        given();
        send("a", "b", "a", "b");
        gateway.crash();
        connection = connectTo(gateway, "c");
        List<String> texts = new ArrayList<>();
        MessageConsumer consumer = again();
        for (int i = 0; i < 4; i++) {
            texts.add(text(consumer));
        }
        assertEquals(List.of("a0", "b1", "a2", "b3"), texts);
    }
}
