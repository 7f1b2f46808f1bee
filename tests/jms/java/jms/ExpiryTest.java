package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;

import jakarta.jms.DeliveryMode;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;

/** What has expired isn't delivered: these clients would take it, they don't look at it themselves. */
@ParameterizedClass
@EnumSource(Kept.class)
class ExpiryTest extends KeptClient {
    private static final String TAKES_ALL = "jms.localMessageExpiry=false";

    @BeforeEach
    void takeAll() throws Exception {
        reconnect(TAKES_ALL);
    }

    /** Send so many texts that live for so many milliseconds; the last one as it was sent. */
    private Message send(String text, int count, long life) throws Exception {
        Session session = auto(connection);
        MessageProducer producer = session.createProducer(place);
        producer.setTimeToLive(life);
        producer.setDeliveryMode(count > 1 ? DeliveryMode.NON_PERSISTENT : DeliveryMode.PERSISTENT);
        Message message = session.createTextMessage(text);
        for (int i = 0; i < count; i++) {
            producer.send(message);
        }
        session.close();
        return message;
    }

    @Test
    @DisplayName("What has expired while it waited for a consumer never comes; what is behind it does.")
    void waited() throws Exception {
        given();
        send("short", 1, 200);
        publish(connection, place, "long");
        Thread.sleep(300);
        MessageConsumer consumer = again();
        expectCounted(consumer, "long", 1);
        expectNothing(consumer);
    }

    @Test
    @DisplayName("In time it comes, and says when it will expire.")
    void inTime() throws Exception {
        given();
        Message sent = send("in time", 1, 60_000);
        Message got = next(again());
        assertEquals(sent.getJMSExpiration(), got.getJMSExpiration());
        assertEquals(sent.getJMSTimestamp() + 60_000, got.getJMSExpiration());
    }

    @Test
    @DisplayName("A thousand that have expired don't delay the one behind them.")
    void thousand() throws Exception {
        given();
        send("short", 1_000, 300);
        publish(connection, place, "long");
        Thread.sleep(400);
        MessageConsumer consumer = again();
        expect(consumer, "long");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("What expires while a consumer has it doesn't come again when it is given back.")
    void givenBack() throws Exception {
        given();
        send("short", 1, 3_000);
        MessageConsumer consumer = receivingIn(INDIVIDUAL);
        Message got = next(consumer);
        Thread.sleep(3_200);
        settle(got, RELEASED);
        publish(connection, place, "long");
        expect(consumer, "long");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("What expires while the gateway is down doesn't come when it is back.")
    void expiresWhileDown() throws Exception {
        Gateway gateway = ownGateway();
        connection = open(uri(gateway, TAKES_ALL), "c");
        given();
        send("short", 1, 600);
        publish(connection, place, "long");
        gateway.kill();
        Thread.sleep(700);
        gateway.start();
        MessageConsumer consumer = receivingAt(open(uri(gateway, TAKES_ALL), "c"));
        expectCounted(consumer, "long", 1);
        expectNothing(consumer);
    }
}
