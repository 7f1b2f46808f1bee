package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** When a message is done with, in every acknowledge mode, on a durable subscription. */
class AcknowledgeTest extends Client {
    private static final int INDIVIDUAL = 101;
    private static final int PRE_ACKNOWLEDGE = 100;
    private static final int NO_ACKNOWLEDGE = 257;
    private static final int ACCEPTED = 1;
    private static final int REJECTED = 2;
    private static final int RELEASED = 3;
    private static final int MODIFIED = 4;
    private static final int UNDELIVERABLE = 5;

    /** A client with a durable subscription that these texts wait in. */
    private Topic given(Connection connection, String... texts) throws Exception {
        Topic topic = auto(connection).createTopic(name("topic"));
        auto(connection).createDurableConsumer(topic, "s").close();
        publish(connection, topic, texts);
        return topic;
    }

    private static void redelivered(Message message, String text, int count) throws Exception {
        assertEquals(text, message.getBody(String.class));
        assertEquals(count > 1, message.getJMSRedelivered());
        assertEquals(count, message.getIntProperty("JMSXDeliveryCount"));
    }

    @ParameterizedTest
    @ValueSource(ints = {Session.AUTO_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE})
    @DisplayName("AUTO and DUPS_OK: what was received is done with when the connection closes.")
    void automatic(int mode) throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = given(connection, "one", "two", "three");
        MessageConsumer consumer = session(connection, mode).createDurableConsumer(topic, "s");
        expect(consumer, "one", "two");
        connection.close();
        MessageConsumer again = auto(connect(name("c"))).createDurableConsumer(topic, "s");
        redelivered(next(again), "three", 1);
        expectNothing(again);
    }

    @Test
    @DisplayName("CLIENT: acknowledge takes all that the session has received so far.")
    void clientTakesAll() throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = given(connection, "one", "two", "three");
        Session session = session(connection, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createDurableConsumer(topic, "s");
        expect(consumer, "one");
        next(consumer).acknowledge();
        session.close();
        MessageConsumer again = auto(connection).createDurableConsumer(topic, "s");
        expect(again, "three");
        expectNothing(again);
    }

    @Test
    @DisplayName("CLIENT: what wasn't acknowledged comes again, first, with two as its count.")
    void clientComesAgain() throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = given(connection, "one", "two", "three");
        Session session = session(connection, Session.CLIENT_ACKNOWLEDGE);
        expect(session.createDurableConsumer(topic, "s"), "one", "two");
        session.close();
        MessageConsumer again = auto(connection).createDurableConsumer(topic, "s");
        redelivered(next(again), "one", 2);
        redelivered(next(again), "two", 2);
        redelivered(next(again), "three", 1);
        expectNothing(again);
    }

    @Test
    @DisplayName("CLIENT: the count goes on over several sessions and a restart of the gateway.")
    void countGoesOn() throws Exception {
        Gateway gateway = ownGateway();
        Connection connection = open(uri(gateway, ""), "c");
        Topic topic = given(connection, "one");
        for (int count = 1; count <= 3; count++) {
            Session session = session(connection, Session.CLIENT_ACKNOWLEDGE);
            redelivered(next(session.createDurableConsumer(topic, "s")), "one", count);
            session.close();
        }
        connection.close();
        gateway.restart();
        Connection again = open(uri(gateway, ""), "c");
        redelivered(next(auto(again).createDurableConsumer(topic, "s")), "one", 4);
    }

    @Test
    @DisplayName("CLIENT: recover begins again with the first that wasn't acknowledged.")
    void recover() throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = given(connection, "one", "two", "three");
        Session session = session(connection, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createDurableConsumer(topic, "s");
        next(consumer).acknowledge();
        expect(consumer, "two");
        session.recover();
        redelivered(next(consumer), "two", 2);
        redelivered(next(consumer), "three", 1);
    }

    @Test
    @DisplayName("CLIENT: what was recovered and not received again comes again after close.")
    void recoverThenClose() throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = given(connection, "one", "two");
        Session session = session(connection, Session.CLIENT_ACKNOWLEDGE);
        expect(session.createDurableConsumer(topic, "s"), "one");
        session.recover();
        session.close();
        MessageConsumer again = auto(connection).createDurableConsumer(topic, "s");
        redelivered(next(again), "one", 2);
        redelivered(next(again), "two", 1);
    }

    @Test
    @DisplayName("CLIENT: a consumer's close leaves what it received to be acknowledged later.")
    void acknowledgeAfterClose() throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = given(connection, "one", "two");
        Session session = session(connection, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createDurableConsumer(topic, "s");
        Message one = next(consumer);
        consumer.close();
        one.acknowledge();
        session.close();
        MessageConsumer again = auto(connection).createDurableConsumer(topic, "s");
        expect(again, "two");
        expectNothing(again);
    }

    @Test
    @DisplayName("CLIENT: acknowledge covers all consumers of the session.")
    void acknowledgeCoversTheSession() throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = given(connection, "one");
        Session session = session(connection, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer durable = session.createDurableConsumer(topic, "s");
        Topic other = session.createTopic(name("other"));
        MessageConsumer another = session.createDurableConsumer(other, "o");
        publish(connection, other, "there");
        expect(durable, "one");
        next(another).acknowledge();
        session.close();
        expectNothing(auto(connection).createDurableConsumer(topic, "s"));
        expectNothing(auto(connection).createDurableConsumer(other, "o"));
    }

    @Test
    @DisplayName("Individual: each message for itself; the others come again in order.")
    void individual() throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = given(connection, "one", "two", "three");
        Session session = session(connection, INDIVIDUAL);
        MessageConsumer consumer = session.createDurableConsumer(topic, "s");
        expect(consumer, "one");
        next(consumer).acknowledge();
        expect(consumer, "three");
        session.close();
        MessageConsumer again = auto(connection).createDurableConsumer(topic, "s");
        expect(again, "one", "three");
        expectNothing(again);
    }

    @Test
    @DisplayName("Individual: acknowledging backwards settles all the same.")
    void individualBackwards() throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = given(connection, "one", "two", "three");
        Session session = session(connection, INDIVIDUAL);
        MessageConsumer consumer = session.createDurableConsumer(topic, "s");
        Message[] got = {next(consumer), next(consumer), next(consumer)};
        for (int i = 2; i >= 0; i--) {
            got[i].acknowledge();
        }
        session.close();
        expectNothing(auto(connection).createDurableConsumer(topic, "s"));
    }

    @Test
    @DisplayName("Individual: recover brings back what wasn't acknowledged.")
    void individualRecover() throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = given(connection, "one", "two", "three");
        Session session = session(connection, INDIVIDUAL);
        MessageConsumer consumer = session.createDurableConsumer(topic, "s");
        expect(consumer, "one");
        next(consumer).acknowledge();
        session.recover();
        redelivered(next(consumer), "one", 2);
        expect(consumer, "three");
    }

    @ParameterizedTest
    @ValueSource(ints = {NO_ACKNOWLEDGE, PRE_ACKNOWLEDGE})
    @DisplayName("Without acknowledgement what was sent is done with, read or not.")
    void none(int mode) throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = given(connection, "one", "two");
        Session session = session(connection, mode);
        expect(session.createDurableConsumer(topic, "s"), "one", "two");
        session.close();
        expectNothing(auto(connection).createDurableConsumer(topic, "s"));
    }

    @ParameterizedTest
    @ValueSource(ints = {ACCEPTED, REJECTED, UNDELIVERABLE})
    @DisplayName("Acknowledged as accepted, rejected or undeliverable here, it never comes again.")
    void neverAgain(int outcome) throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = given(connection, "one", "two");
        settle(connection, topic, outcome);
        MessageConsumer again = auto(connection).createDurableConsumer(topic, "s");
        expect(again, "two");
        expectNothing(again);
    }

    @Test
    @DisplayName("Acknowledged as released it comes again with its count unchanged.")
    void released() throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = given(connection, "one", "two");
        settle(connection, topic, RELEASED);
        MessageConsumer again = auto(connection).createDurableConsumer(topic, "s");
        redelivered(next(again), "one", 1);
        redelivered(next(again), "two", 1);
    }

    @Test
    @DisplayName("Acknowledged as modified it comes again and its count is one higher.")
    void modified() throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = given(connection, "one", "two");
        settle(connection, topic, MODIFIED);
        MessageConsumer again = auto(connection).createDurableConsumer(topic, "s");
        redelivered(next(again), "one", 2);
        redelivered(next(again), "two", 1);
    }

    /** Give the first message this outcome and end the session. */
    private static void settle(Connection connection, Topic topic, int outcome) throws Exception {
        Session session = session(connection, INDIVIDUAL);
        Message one = next(session.createDurableConsumer(topic, "s"));
        one.setIntProperty("JMS_AMQP_ACK_TYPE", outcome);
        one.acknowledge();
        session.close();
    }

    @Test
    @DisplayName("A first delivery says that it is one.")
    void firstDelivery() throws Exception {
        Connection connection = connect(name("c"));
        Topic topic = given(connection, "one");
        Message one = next(auto(connection).createDurableConsumer(topic, "s"));
        assertFalse(one.getJMSRedelivered());
        assertEquals(1, one.getIntProperty("JMSXDeliveryCount"));
        assertTrue(one.propertyExists("JMSXDeliveryCount"));
    }
}
