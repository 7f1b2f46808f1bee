package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** When a message is done with, in every acknowledge mode. */
@ParameterizedClass
@EnumSource(Kept.class)
class AcknowledgeTest extends KeptClient {
    private static final int PRE_ACKNOWLEDGE = 100;

    @ParameterizedTest
    @ValueSource(ints = {Session.AUTO_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE})
    @DisplayName("AUTO and DUPS_OK: what was received is done with when the connection closes.")
    void automatic(int mode) throws Exception {
        given("one", "two", "three");
        MessageConsumer consumer = receivingIn(mode);
        expect(consumer, "one", "two");
        connection.close();
        reconnect("");
        MessageConsumer again = again();
        expectCounted(again, "three", 1);
        expectNothing(again);
    }

    @Test
    @DisplayName("CLIENT: acknowledge takes all that the session has received so far.")
    void clientTakesAll() throws Exception {
        given("one", "two", "three");
        MessageConsumer consumer = receivingIn(Session.CLIENT_ACKNOWLEDGE);
        expect(consumer, "one");
        next(consumer).acknowledge();
        own.close();
        MessageConsumer again = again();
        expect(again, "three");
        expectNothing(again);
    }

    @Test
    @DisplayName("CLIENT: what wasn't acknowledged comes again, first, with two as its count.")
    void clientComesAgain() throws Exception {
        given("one", "two", "three");
        expect(receivingIn(Session.CLIENT_ACKNOWLEDGE), "one", "two");
        own.close();
        MessageConsumer again = again();
        expectCounted(again, "one", 2);
        expectCounted(again, "two", 2);
        expectCounted(again, "three", 1);
        expectNothing(again);
    }

    @Test
    @DisplayName("CLIENT: the count goes on over several sessions and a restart of the gateway.")
    void countGoesOn() throws Exception {
        Gateway gateway = ownGateway();
        connection = connectTo(gateway, "c");
        given("one");
        for (int count = 1; count <= 3; count++) {
            expectCounted(receivingIn(Session.CLIENT_ACKNOWLEDGE), "one", count);
            own.close();
        }
        connection.close();
        gateway.restart();
        expectCounted(receivingAt(connectTo(gateway, "c")), "one", 4);
    }

    @Test
    @DisplayName("CLIENT: recover begins again with the first that wasn't acknowledged.")
    void recover() throws Exception {
        given("one", "two", "three");
        MessageConsumer consumer = receivingIn(Session.CLIENT_ACKNOWLEDGE);
        next(consumer).acknowledge();
        expect(consumer, "two");
        own.recover();
        expectCounted(consumer, "two", 2);
        expectCounted(consumer, "three", 1);
    }

    @Test
    @DisplayName("CLIENT: what was recovered and not received again comes again after close.")
    void recoverThenClose() throws Exception {
        given("one", "two");
        expect(receivingIn(Session.CLIENT_ACKNOWLEDGE), "one");
        own.recover();
        own.close();
        MessageConsumer again = again();
        expectCounted(again, "one", 2);
        expectCounted(again, "two", 1);
    }

    @Test
    @DisplayName("CLIENT: a consumer's close leaves what it received to be acknowledged later.")
    void acknowledgeAfterClose() throws Exception {
        given("one", "two");
        MessageConsumer consumer = receivingIn(Session.CLIENT_ACKNOWLEDGE);
        Message one = next(consumer);
        consumer.close();
        one.acknowledge();
        own.close();
        MessageConsumer again = again();
        expect(again, "two");
        expectNothing(again);
    }

    @Test
    @DisplayName("CLIENT: acknowledge covers all consumers of the session.")
    void acknowledgeCoversTheSession() throws Exception {
        given("one");
        MessageConsumer consumer = receivingIn(Session.CLIENT_ACKNOWLEDGE);
        Topic other = own.createTopic(name("other"));
        MessageConsumer another = own.createDurableConsumer(other, "o");
        publish(connection, other, "there");
        expect(consumer, "one");
        next(another).acknowledge();
        own.close();
        expectNothing(again());
        expectNothing(auto(connection).createDurableConsumer(other, "o"));
    }

    @Test
    @DisplayName("Individual: each message for itself; the others come again in order.")
    void individual() throws Exception {
        given("one", "two", "three");
        MessageConsumer consumer = receivingIn(INDIVIDUAL);
        expect(consumer, "one");
        next(consumer).acknowledge();
        expect(consumer, "three");
        own.close();
        MessageConsumer again = again();
        expect(again, "one", "three");
        expectNothing(again);
    }

    @Test
    @DisplayName("Individual: acknowledging backwards settles all the same.")
    void individualBackwards() throws Exception {
        given("one", "two", "three");
        MessageConsumer consumer = receivingIn(INDIVIDUAL);
        Message[] got = {next(consumer), next(consumer), next(consumer)};
        for (int i = 2; i >= 0; i--) {
            got[i].acknowledge();
        }
        own.close();
        expectNothing(again());
    }

    @Test
    @DisplayName("Individual: recover brings back what wasn't acknowledged.")
    void individualRecover() throws Exception {
        given("one", "two", "three");
        MessageConsumer consumer = receivingIn(INDIVIDUAL);
        expect(consumer, "one");
        next(consumer).acknowledge();
        own.recover();
        expectCounted(consumer, "one", 2);
        expect(consumer, "three");
    }

    @ParameterizedTest
    @ValueSource(ints = {NO_ACKNOWLEDGE, PRE_ACKNOWLEDGE})
    @DisplayName("Without acknowledgement what was sent is done with, read or not.")
    void none(int mode) throws Exception {
        given("one", "two");
        expect(receivingIn(mode), "one", "two");
        own.close();
        expectNothing(again());
    }

    @ParameterizedTest
    @ValueSource(ints = {ACCEPTED, REJECTED, UNDELIVERABLE})
    @DisplayName("Acknowledged as accepted, rejected or undeliverable here, it never comes again.")
    void neverAgain(int outcome) throws Exception {
        given("one", "two");
        settleFirst(outcome);
        MessageConsumer again = again();
        expect(again, "two");
        expectNothing(again);
    }

    @Test
    @DisplayName("Acknowledged as released it comes again with its count unchanged.")
    void released() throws Exception {
        given("one", "two");
        settleFirst(RELEASED);
        MessageConsumer again = again();
        expectCounted(again, "one", 1);
        expectCounted(again, "two", 1);
    }

    @Test
    @DisplayName("Acknowledged as modified it comes again and its count is one higher.")
    void modified() throws Exception {
        given("one", "two");
        settleFirst(MODIFIED);
        MessageConsumer again = again();
        expectCounted(again, "one", 2);
        expectCounted(again, "two", 1);
    }

    /** Give the first message this outcome and end the session. */
    private void settleFirst(int outcome) throws Exception {
        settle(next(receivingIn(INDIVIDUAL)), outcome);
        own.close();
    }

    @Test
    @DisplayName("A first delivery says that it is one.")
    void firstDelivery() throws Exception {
        given("one");
        Message one = next(again());
        assertFalse(one.getJMSRedelivered());
        assertEquals(1, one.getIntProperty("JMSXDeliveryCount"));
        assertTrue(one.propertyExists("JMSXDeliveryCount"));
    }

    @Test
    @DisplayName("What the client gives up on after two redeliveries comes no more, the next does.")
    void redeliveryPolicy() throws Exception {
        given("one", "two");
        reconnect("jms.redeliveryPolicy.maxRedeliveries=2");
        for (int count = 1; count <= 3; count++) {
            expectCounted(receivingIn(Session.CLIENT_ACKNOWLEDGE), "one", count);
            own.close();
        }
        MessageConsumer again = again();
        expect(again, "two");
        expectNothing(again);
        reconnect("");
        expectNothing(again());
    }

    @Test
    @DisplayName("A presettled consumer's messages are done with when they are sent.")
    void presettled() throws Exception {
        given("one", "two");
        reconnect("jms.presettlePolicy.presettleConsumers=true");
        expect(receivingIn(Session.CLIENT_ACKNOWLEDGE), "one", "two");
        own.close();
        expectNothing(again());
    }

    @Test
    @DisplayName("To acknowledge to a gateway that has died is an exception; the message comes again.")
    void acknowledgeToTheDead() throws Exception {
        Gateway gateway = ownGateway();
        connection = connectTo(gateway, "c");
        given("one");
        Message one = next(receivingIn(Session.CLIENT_ACKNOWLEDGE));
        CountDownLatch broken = new CountDownLatch(1);
        connection.setExceptionListener(error -> broken.countDown());
        gateway.kill();
        assertTrue(broken.await(PATIENCE, TimeUnit.MILLISECONDS));
        assertThrows(JMSException.class, one::acknowledge);
        gateway.start();
        expectCounted(receivingAt(connectTo(gateway, "c")), "one", 2);
    }
}
