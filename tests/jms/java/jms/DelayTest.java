package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;

/** What is sent with a delivery delay is kept, and comes when its time has come. */
@ParameterizedClass
@EnumSource(Kept.class)
class DelayTest extends KeptClient {
    /** Milliseconds; longer than any silence that is listened to. */
    private static final long DELAY = 3_000;

    /** Send this text, to come after so many milliseconds; the message as it was sent. */
    private Message send(String text, long delay) throws Exception {
        Session session = auto(connection);
        MessageProducer producer = session.createProducer(place);
        producer.setDeliveryDelay(delay);
        Message message = session.createTextMessage(text);
        producer.send(message);
        session.close();
        return message;
    }

    /** The next message is this one, for the first time and not before its own. */
    private static void expectInTime(MessageConsumer consumer, Message sent) throws Exception {
        Message got = next(consumer);
        long early = sent.getJMSDeliveryTime() - System.currentTimeMillis();
        assertEquals(sent.getBody(String.class), got.getBody(String.class));
        assertEquals(sent.getJMSDeliveryTime(), got.getJMSDeliveryTime());
        assertTrue(early <= 0, () -> "early by " + early + " ms");
        assertEquals(1, got.getIntProperty("JMSXDeliveryCount"));
    }

    @Test
    @DisplayName("It comes when its time has come; what was sent after it doesn't wait for it.")
    void waits() throws Exception {
        given();
        MessageConsumer consumer = again();
        Message late = send("late", DELAY);
        publish(connection, place, "now");
        expect(consumer, "now");
        expectInTime(consumer, late);
        expectNothing(consumer);
    }

    @Test
    @DisplayName("Of two that wait, the one whose time comes first comes first.")
    void shortestFirst() throws Exception {
        given();
        MessageConsumer consumer = again();
        Message second = send("second", 4_200);
        Message first = send("first", 600);
        expectInTime(consumer, first);
        expectInTime(consumer, second);
    }

    @Test
    @DisplayName("It waits without its sender and without a consumer, and is there for who comes.")
    void withoutAnybody() throws Exception {
        given();
        Message late = send("late", DELAY);
        reconnect("");
        MessageConsumer early = again();
        assertNull(early.receiveNoWait());
        early.close();
        while (System.currentTimeMillis() < late.getJMSDeliveryTime()) {
            Thread.sleep(20);
        }
        expectInTime(again(), late);
    }

    @Test
    @DisplayName("A listener hears it in its time.")
    void listener() throws Exception {
        given();
        Heard heard = new Heard();
        again().setMessageListener(heard);
        Message late = send("late", DELAY);
        publish(connection, place, "now");
        heard.expect("now", "late");
        assertTrue(System.currentTimeMillis() >= late.getJMSDeliveryTime());
    }

    @Test
    @DisplayName("It waits over a kill of the gateway.")
    void survivesKill() throws Exception {
        Gateway gateway = ownGateway();
        connection = connectTo(gateway, "c");
        given();
        Message late = send("late", 4_000);
        gateway.crash();
        MessageConsumer consumer = receivingAt(connectTo(gateway, "c"));
        expectInTime(consumer, late);
        expectNothing(consumer);
    }

    @Test
    @DisplayName("What comes back after its time comes again at once.")
    void onlyOnce() throws Exception {
        given();
        send("late", 500);
        MessageConsumer consumer = receivingIn(INDIVIDUAL);
        settle(next(consumer), MODIFIED);
        expectCounted(consumer, "late", 2);
    }

    @Test
    @DisplayName("What expires before its time of delivery never comes.")
    void expiresBefore() throws Exception {
        reconnect("jms.localMessageExpiry=false");
        given();
        MessageConsumer consumer = again();
        Session session = auto(connection);
        MessageProducer producer = session.createProducer(place);
        producer.setTimeToLive(200);
        producer.setDeliveryDelay(600);
        producer.send(session.createTextMessage("never"));
        assertNull(consumer.receive(1_200));
        publish(connection, place, "next");
        expect(consumer, "next");
    }
}
