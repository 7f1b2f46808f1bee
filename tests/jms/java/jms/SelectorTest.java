package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.InvalidSelectorException;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Subscriptions with a selector: what matches is owed, what doesn't never was. */
class SelectorTest extends OneClient {
    private MessageProducer producer;

    @BeforeEach
    void produce() throws Exception {
        producer = session.createProducer(topic);
    }

    private void send(String text, int n) throws Exception {
        Message message = session.createTextMessage(text);
        message.setIntProperty("n", n);
        producer.send(message);
    }

    private MessageConsumer selecting(String selector) throws Exception {
        return auto(connection).createDurableConsumer(topic, "s", selector, false);
    }

    @Test
    @DisplayName("A consumer with a selector receives what matches, in order, and nothing else.")
    void plain() throws Exception {
        MessageConsumer consumer = session.createConsumer(topic, "n > 1");
        send("one", 1);
        send("two", 2);
        send("none", 0);
        send("three", 3);
        expect(consumer, "two", "three");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("A durable subscription keeps what matches while its consumer is away.")
    void durable() throws Exception {
        selecting("n > 1").close();
        send("one", 1);
        send("two", 2);
        MessageConsumer consumer = selecting("n > 1");
        expect(consumer, "two");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("A selector and what it let in survive the death of the gateway.")
    void survivesKill() throws Exception {
        Gateway gateway = ownGateway();
        Connection before = connectTo(gateway, "c");
        auto(before).createDurableConsumer(topic, "s", "n > 1", false).close();
        send(before, "one", 1);
        send(before, "two", 2);
        gateway.crash();
        Connection after = connectTo(gateway, "c");
        send(after, "three", 3);
        send(after, "zero", 0);
        MessageConsumer consumer = auto(after).createDurableConsumer(topic, "s", "n > 1", false);
        expect(consumer, "two", "three");
        expectNothing(consumer);
    }

    private void send(Connection there, String text, int n) throws Exception {
        Session own = auto(there);
        Message message = own.createTextMessage(text);
        message.setIntProperty("n", n);
        own.createProducer(topic).send(message);
    }

    @Test
    @DisplayName("A changed selector begins a durable subscription anew.")
    void changed() throws Exception {
        selecting("n > 1").close();
        send("two", 2);
        MessageConsumer consumer = selecting("n > 0");
        send("one", 1);
        expect(consumer, "one");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("The same selector is the same subscription; a missing one is another.")
    void dropped() throws Exception {
        selecting("n > 1").close();
        send("two", 2);
        MessageConsumer same = selecting("n > 1");
        expect(same, "two");
        same.close();
        send("three", 3);
        MessageConsumer without = again();
        send("one", 1);
        expect(without, "one");
        expectNothing(without);
    }

    @Test
    @DisplayName("Who shares a subscription has its selector; another is refused while it is used.")
    void shared() throws Exception {
        Connection one = connectWith(NO_PREFETCH);
        Connection other = connectWith(NO_PREFETCH);
        MessageConsumer first = auto(one).createSharedDurableConsumer(topic, name("s"), "n > 1");
        MessageConsumer second = auto(other).createSharedDurableConsumer(topic, name("s"), "n > 1");
        for (int i = 0; i < 4; i++) {
            send("message " + i, i);
        }
        expect(second, "message 2");
        expect(first, "message 3");
        Session third = auto(connect());
        expectRefused("amqp:resource-locked",
                () -> third.createSharedDurableConsumer(topic, name("s"), "n > 0"));
        expectRefused("amqp:resource-locked",
                () -> third.createSharedDurableConsumer(topic, name("s")));
    }

    @Test
    @DisplayName("So it is with a shared subscription that isn't durable.")
    void sharedVolatile() throws Exception {
        MessageConsumer consumer = session.createSharedConsumer(topic, "s", "n = 2");
        send("one", 1);
        send("two", 2);
        expect(consumer, "two");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("A subscription with a selector is unsubscribed as any other.")
    void unsubscribed() throws Exception {
        selecting("n > 1").close();
        send("two", 2);
        session.unsubscribe("s");
        expectNothing(selecting("n > 1"));
    }

    @ParameterizedTest
    @CsvSource(delimiter = ';', quoteCharacter = '`', value = {
        "JMSPriority > 4; true", "JMSPriority = 4; false", "JMSDeliveryMode = 'PERSISTENT'; true",
        "JMSDeliveryMode = 'NON_PERSISTENT'; false", "JMSType = 'order'; true",
        "JMSCorrelationID = 'c-1'; true", "JMSMessageID LIKE 'ID:%'; true", "JMSTimestamp > 0; true",
        "JMSXGroupID = 'g'; true", "JMSXGroupSeq = 3; true", "missing IS NULL; true",
        "missing <> 'x'; false", "NOT missing = 'x'; false", "flag; true", "NOT flag; false",
        "flag = TRUE AND n BETWEEN 6 AND 8; true", "colour IN ('red', 'green'); true",
        "colour NOT IN ('red', 'green'); false", "colour LIKE 'g__en'; true",
        "colour LIKE 'gr\\_%' ESCAPE '\\'; false", "n + 1 = 8 AND n * 2 > 13; true", "n / 2 = 3; true",
        "half = 0.5; true", "big = 9223372036854775807; true", "n = 7.0; true", "text = '7'; true",
        "text = 7; false", "colour = 'it''s'; false", "n > 6 OR 1 / 0 = 1; true", "b = 1; true",
    })
    @DisplayName("Headers and properties of all types are compared as JMS says.")
    void language(String selector, boolean matches) throws Exception {
        MessageConsumer consumer = session.createConsumer(topic, selector);
        producer.setPriority(7);
        producer.setDeliveryMode(DeliveryMode.PERSISTENT);
        Message message = session.createTextMessage("asked for");
        message.setJMSType("order");
        message.setJMSCorrelationID("c-1");
        message.setStringProperty("JMSXGroupID", "g");
        message.setIntProperty("JMSXGroupSeq", 3);
        message.setIntProperty("n", 7);
        message.setByteProperty("b", (byte) 1);
        message.setBooleanProperty("flag", true);
        message.setStringProperty("colour", "green");
        message.setStringProperty("text", "7");
        message.setDoubleProperty("half", 0.5);
        message.setLongProperty("big", Long.MAX_VALUE);
        producer.send(message);
        if (matches) {
            expect(consumer, "asked for");
        }
        expectNothing(consumer);
    }

    @Test
    @DisplayName("Equal and other selectors of one topic each get what is theirs, of five thousand.")
    void manyMessages() throws Exception {
        MessageConsumer evens = session.createConsumer(topic, "n % 2 = 0");
        MessageConsumer alsoEvens = auto(connect()).createConsumer(topic, "n % 2 = 0");
        MessageConsumer rare = auto(connect()).createConsumer(topic, "n = 4999");
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        for (int i = 0; i < 5_000; i++) {
            send(Integer.toString(i), i);
        }
        expect(rare, "4999");
        for (int i = 0; i < 5_000; i += 2) {
            expect(evens, Integer.toString(i));
            expect(alsoEvens, Integer.toString(i));
        }
        expectNothing(evens);
    }

    @ParameterizedTest
    @ValueSource(strings = {"n > > 1", "n =", "'text", "n BETWEEN 1", "1 + 1", "n IN (1, 2)"})
    @DisplayName("A selector that can't be read is an InvalidSelectorException.")
    void broken(String selector) {
        assertThrows(
                InvalidSelectorException.class, () -> session.createConsumer(topic, selector));
    }

    @Test
    @DisplayName("If the client doesn't look, the gateway refuses it and says where it is broken.")
    void brokenForTheGateway() throws Exception {
        Session own = auto(connectWith("jms.validateSelector=false"));
        JMSException refused =
                assertThrows(JMSException.class, () -> own.createConsumer(topic, "n > > 1"));
        assertTrue(refused.getMessage().contains("amqp:invalid-field"), refused.getMessage());
        MessageConsumer consumer = own.createConsumer(topic, "n > 1");
        send("two", 2);
        expect(consumer, "two");
    }

    @Test
    @DisplayName("A consumer says which selector it has.")
    void told() throws Exception {
        assertEquals("n > 1", session.createConsumer(topic, "n > 1").getMessageSelector());
    }

    @Test
    @DisplayName("A connection consumer with a selector hands over what matches.")
    void connectionConsumer() throws Exception {
        Heard heard = new Heard();
        session.setMessageListener(heard);
        connection.createConnectionConsumer(topic, "n > 1", pool(session), 10);
        Session own = auto(connect());
        MessageProducer other = own.createProducer(topic);
        for (int n = 0; n < 4; n++) {
            Message message = own.createTextMessage("message " + n);
            message.setIntProperty("n", n);
            other.send(message);
        }
        heard.expect("message 2", "message 3");
        heard.expectNothing();
    }

    @Test
    @DisplayName("A shared subscription begins anew with another topic and selector when unused.")
    void redefined() throws Exception {
        Topic other = session.createTopic(name("other"));
        auto(connection).createSharedDurableConsumer(topic, "shared", "n > 1").close();
        send("two", 2);
        MessageConsumer consumer =
                auto(connection).createSharedDurableConsumer(other, "shared", "n < 1");
        producer = session.createProducer(other);
        send("zero", 0);
        send("one", 1);
        expect(consumer, "zero");
        expectNothing(consumer);
    }
}
