package jms;

import jakarta.jms.DeliveryMode;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.util.stream.IntStream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;

/** Of what waits, messages of a higher priority come first, and of one priority in their order. */
@ParameterizedClass
@EnumSource(Kept.class)
class PriorityTest extends KeptClient {
    /** Send messages of these priorities, in this order; each says its own and its number. */
    private void send(int... priorities) throws Exception {
        Session session = auto(connection);
        MessageProducer producer = session.createProducer(place);
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        for (int i = 0; i < priorities.length; i++) {
            if (i == priorities.length - 1) {
                producer.setDeliveryMode(DeliveryMode.PERSISTENT);
            }
            producer.setPriority(priorities[i]);
            producer.send(session.createTextMessage(priorities[i] + "/" + i));
        }
        session.close();
    }

    private MessageConsumer oneByOne(int mode) throws Exception {
        reconnect(NO_PREFETCH);
        return receivingIn(mode);
    }

    @Test
    @DisplayName("All ten priorities, each in its order.")
    void allTen() throws Exception {
        given();
        send(4, 0, 9, 5, 1, 8, 2, 7, 3, 6, 4, 9, 0);
        MessageConsumer consumer = again();
        expect(consumer, "9/2", "9/11", "8/5", "7/7", "6/9", "5/3", "4/0", "4/10", "3/8", "2/6");
        expect(consumer, "1/4", "0/1", "0/12");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("What is urgent overtakes all that no consumer has yet.")
    void overtakes() throws Exception {
        given();
        MessageConsumer consumer = oneByOne(Session.AUTO_ACKNOWLEDGE);
        send(4, 4, 4);
        expect(consumer, "4/0");
        send(9);
        expect(consumer, "9/0", "4/1", "4/2");
    }

    @Test
    @DisplayName("What is given back takes its place by its priority.")
    void givenBack() throws Exception {
        given();
        MessageConsumer consumer = oneByOne(INDIVIDUAL);
        send(4, 9, 4);
        Message urgent = next(consumer);
        Message usual = next(consumer);
        settle(usual, RELEASED);
        settle(urgent, RELEASED);
        expect(consumer, "9/1", "4/0", "4/2");
    }

    @Test
    @DisplayName("The order is the same after a kill of the gateway.")
    void survivesKill() throws Exception {
        Gateway gateway = ownGateway();
        connection = connectTo(gateway, "c");
        given();
        send(1, 9, 4, 0, 9);
        gateway.crash();
        MessageConsumer consumer = receivingAt(connectTo(gateway, "c"));
        expect(consumer, "9/1", "9/4", "4/2", "1/0", "0/3");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("One urgent message behind two thousand usual ones comes first.")
    void behindMany() throws Exception {
        given();
        int[] priorities = new int[2_001];
        java.util.Arrays.fill(priorities, 4);
        priorities[2_000] = 8;
        send(priorities);
        MessageConsumer consumer = again();
        expect(consumer, "8/2000");
        expect(consumer, IntStream.range(0, 2_000).mapToObj(i -> "4/" + i).toArray(String[]::new));
    }
}
