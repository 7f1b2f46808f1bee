package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Who gets what of a queue: sharing, credit, acknowledgement, and what comes again. */
class QueueConsumerTest extends OneClient {
    private Session own;

    /** A consumer of the queue, in a session of its own with this mode. */
    private MessageConsumer receivingIn(int mode) throws Exception {
        own = session(connection, mode);
        return own.createConsumer(queue);
    }

    private MessageConsumer prefetching(int count) throws Exception {
        return auto(connectWith("jms.prefetchPolicy.all=" + count)).createConsumer(queue);
    }

    @Test
    @DisplayName("The consumers of one session share a queue, each message goes to one of them.")
    void sharedInASession() throws Exception {
        Session none = auto(connectWith(NO_PREFETCH));
        MessageConsumer first = none.createConsumer(queue);
        MessageConsumer second = none.createConsumer(queue);
        publish(connection, queue, "one", "two", "three");
        expect(second, "one");
        expect(first, "two");
        expect(second, "three");
        expectNothing(first);
        expectNothing(second);
    }

    @Test
    @DisplayName("Ten consumers in ten connections receive a thousand messages once each.")
    void competing() throws Exception {
        List<MessageConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            consumers.add(prefetching(10));
        }
        publishMany(connection, queue, 1_000);
        List<Integer> got = new ArrayList<>();
        for (int rounds = 0; got.size() < 1_000 && rounds < 10_000; rounds++) {
            for (MessageConsumer consumer : consumers) {
                Message message = consumer.receiveNoWait();
                if (message != null) {
                    got.add(Integer.valueOf(message.getBody(String.class)));
                }
            }
        }
        got.sort(null);
        assertEquals(IntStream.range(0, 1_000).boxed().toList(), got);
    }

    @Test
    @DisplayName("Each of the consumers sees its share in the order of the queue.")
    void orderOfShares() throws Exception {
        MessageConsumer first = prefetching(100);
        MessageConsumer second = prefetching(100);
        publishMany(connection, queue, 100);
        List<Integer> all = new ArrayList<>();
        for (MessageConsumer consumer : List.of(first, second)) {
            List<Integer> share = new ArrayList<>();
            for (Message got = next(consumer); got != null; got = consumer.receive(SILENCE)) {
                share.add(Integer.valueOf(got.getBody(String.class)));
            }
            assertEquals(share.stream().sorted().toList(), share);
            assertEquals(50, share.size());
            all.addAll(share);
        }
        assertEquals(100, all.stream().distinct().count());
    }

    @Test
    @DisplayName("What one consumer prefetched goes to another when it closes, uncounted, in order.")
    void prefetchedGoesToOthers() throws Exception {
        MessageConsumer greedy = session.createConsumer(queue);
        publish(connection, queue, "one", "two", "three");
        expect(greedy, "one");
        MessageConsumer other = prefetching(0);
        assertNull(other.receiveNoWait());
        greedy.close();
        expectCounted(other, "two", 1);
        expectCounted(other, "three", 1);
        expectNothing(other);
    }

    @Test
    @DisplayName("What a cut wire held goes to another consumer, in order, marked.")
    void wireCut() throws Exception {
        try (Wire wire = new Wire(Gateway.SHARED)) {
            MessageConsumer lost = auto(open(wire.uri(""), null)).createConsumer(queue);
            publishMany(connection, queue, 100);
            expect(lost, "0");
            wire.cut();
        }
        MessageConsumer other = prefetching(1);
        Message again = next(other);
        String first = again.getBody(String.class);
        assertTrue(again.getJMSRedelivered(), first);
        assertTrue(first.equals("0") || first.equals("1"), first);  // its outcome may be lost too
        expectNumbers(other, Integer.parseInt(first) + 1, 100);
        expectNothing(other);
    }

    @Test
    @DisplayName("A consumer that the client has presettled takes what it is sent.")
    void presettled() throws Exception {
        publish(connection, queue, "one");
        Connection presettling = connectWith("jms.presettlePolicy.presettleQueueConsumers=true");
        expect(session(presettling, Session.CLIENT_ACKNOWLEDGE).createConsumer(queue), "one");
        presettling.close();
        expectNothing(prefetching(1));
    }

    @Test
    @DisplayName("Released it comes again first, with its count unchanged.")
    void released() throws Exception {
        settleFirst(RELEASED);
        expectCounted(prefetching(0), "one", 1);
    }

    @Test
    @DisplayName("Modified it comes again first, with its count one higher.")
    void modified() throws Exception {
        settleFirst(MODIFIED);
        expectCounted(prefetching(0), "one", 2);
    }

    /** Two messages, the first settled with this outcome. */
    private void settleFirst(int outcome) throws Exception {
        publish(connection, queue, "one", "two");
        settle(next(receivingIn(INDIVIDUAL)), outcome);
        own.close();
    }
}
