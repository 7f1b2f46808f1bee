package jms;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The headers of a message come as the sender gave them. */
class HeaderTest extends RoundTrip {
    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
    @DisplayName("Every priority comes as it was given.")
    void priority(int priority) throws Exception {
        producer.setPriority(priority);
        assertEquals(priority, through(session.createMessage()).getJMSPriority());
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "order-17", "größe", "ID:something", "ID:AMQP_UUID:7f3c1a52-4e6b-4d3a-9d55-1d2f3a4b5c6d",
        "ID:AMQP_ULONG:42", "ID:AMQP_BINARY:00FF7F80", ""
    })
    @DisplayName("A correlation id comes back in the form that it had, whatever its AMQP type.")
    void correlationId(String id) throws Exception {
        Message message = session.createMessage();
        message.setJMSCorrelationID(id);
        assertEquals(id, through(message).getJMSCorrelationID());
    }

    @Test
    @DisplayName("A correlation id that asks for no prefix comes back as the bare text.")
    void bareCorrelationId() throws Exception {
        Message message = session.createMessage();
        message.setJMSCorrelationID("ID:AMQP_NO_PREFIX:bare");
        assertEquals("bare", through(message).getJMSCorrelationID());
    }

    @Test
    @DisplayName("A correlation id of bytes comes back as these bytes.")
    void correlationIdAsBytes() throws Exception {
        Message message = session.createMessage();
        message.setJMSCorrelationIDAsBytes(new byte[] {0, 1, -1});
        assertArrayEquals(new byte[] {0, 1, -1}, through(message).getJMSCorrelationIDAsBytes());
    }

    @Test
    @DisplayName("A message without correlation id, type or reply-to comes without.")
    void withoutAny() throws Exception {
        Message got = through(session.createMessage());
        assertNull(got.getJMSCorrelationID());
        assertNull(got.getJMSType());
        assertNull(got.getJMSReplyTo());
        assertEquals(0, got.getJMSExpiration());
    }

    @ParameterizedTest
    @ValueSource(strings = {"DEFAULT", "UUID", "UUID_STRING", "PREFIXED_UUID_STRING"})
    @DisplayName("The message id that the sender was given is the one that is received.")
    void messageId(String policy) throws Exception {
        Connection sender = connectWith("jms.messageIDPolicy.messageIDType=" + policy);
        Session own = auto(sender);
        Message sent = own.createMessage();
        own.createProducer(topic).send(sent);
        assertTrue(sent.getJMSMessageID().startsWith("ID:"), sent.getJMSMessageID());
        assertEquals(sent.getJMSMessageID(), next(consumer).getJMSMessageID());
    }

    @Test
    @DisplayName("Without message ids and timestamps there are none.")
    void disabled() throws Exception {
        producer.setDisableMessageID(true);
        producer.setDisableMessageTimestamp(true);
        Message got = through(session.createMessage());
        assertNull(got.getJMSMessageID());
        assertEquals(0, got.getJMSTimestamp());
    }

    @Test
    @DisplayName("The timestamp and the time of delivery are when it was sent.")
    void timestamp() throws Exception {
        Message sent = session.createMessage();
        Message got = through(sent);
        assertEquals(sent.getJMSTimestamp(), got.getJMSTimestamp());
        assertEquals(sent.getJMSTimestamp(), got.getJMSDeliveryTime());
    }

    @Test
    @DisplayName("The destination is the topic that it was sent to.")
    void destination() throws Exception {
        assertEquals(topic, through(session.createMessage()).getJMSDestination());
    }

    @Test
    @DisplayName("A reply-to topic comes back as this topic, and the answer reaches it.")
    void replyTo() throws Exception {
        Topic answers = session.createTopic(name("answers"));
        MessageConsumer asking = session.createConsumer(answers);
        Message question = session.createTextMessage("question");
        question.setJMSReplyTo(answers);
        Message got = through(question);
        assertEquals(answers, got.getJMSReplyTo());
        Message answer = session.createTextMessage("answer");
        answer.setJMSCorrelationID(got.getJMSMessageID());
        session.createProducer(null).send(got.getJMSReplyTo(), answer);
        Message answered = next(asking);
        assertEquals(question.getJMSMessageID(), answered.getJMSCorrelationID());
    }

    @Test
    @DisplayName("A reply-to queue comes back as this queue.")
    void replyToQueue() throws Exception {
        Message message = session.createMessage();
        message.setJMSReplyTo(session.createQueue("answers"));
        assertEquals(session.createQueue("answers"), through(message).getJMSReplyTo());
    }

    @Test
    @DisplayName("The type comes as it was given.")
    void type() throws Exception {
        Message message = session.createMessage();
        message.setJMSType("order.created");
        assertEquals("order.created", through(message).getJMSType());
    }

    @Test
    @DisplayName("JMSXGroupID and JMSXGroupSeq come as they were given.")
    void group() throws Exception {
        Message message = session.createMessage();
        message.setStringProperty("JMSXGroupID", "group");
        message.setIntProperty("JMSXGroupSeq", 7);
        Message got = through(message);
        assertEquals("group", got.getStringProperty("JMSXGroupID"));
        assertEquals(7, got.getIntProperty("JMSXGroupSeq"));
    }

    @Test
    @DisplayName("JMSXUserID is the sender's name when its client says so.")
    void userId() throws Exception {
        String uri = uri(Gateway.SHARED, "jms.populateJMSXUserID=true&jms.username=ann&jms.password=x");
        Session own = auto(open(uri, null));
        own.createProducer(topic).send(own.createMessage());
        assertEquals("ann", next(consumer).getStringProperty("JMSXUserID"));
    }

    @Test
    @DisplayName("A time to live becomes the time of expiry that the receiver reads.")
    void expiry() throws Exception {
        producer.setTimeToLive(3_600_000);
        Message sent = session.createMessage();
        Message got = through(sent);
        assertEquals(sent.getJMSTimestamp() + 3_600_000, got.getJMSExpiration());
        assertEquals(sent.getJMSExpiration(), got.getJMSExpiration());
    }

    @Test
    @DisplayName("What has expired while it waited isn't received, what comes behind it is, once.")
    void expired() throws Exception {
        session.createDurableConsumer(topic, "s").close();
        producer.setTimeToLive(1);
        producer.send(session.createTextMessage("short"));
        producer.setTimeToLive(0);
        producer.send(session.createTextMessage("long"));
        Message first = next(consumer);  // whichever it is, more than a millisecond has passed
        assertTrue(first.getJMSTimestamp() > 0);
        Thread.sleep(5);
        MessageConsumer again = session.createDurableConsumer(topic, "s");
        expect(again, "long");
        expectNothing(again);
        again.close();
        expectNothing(session.createDurableConsumer(topic, "s"));
    }

    @Test
    @DisplayName("All headers come back from the disk as they were, after the gateway was killed.")
    void headersSurvive() throws Exception {
        Gateway gateway = ownGateway();
        Session own = auto(connectTo(gateway, "c"));
        Topic there = own.createTopic("t");
        own.createDurableConsumer(there, "s").close();
        Message sent = own.createTextMessage("one");
        sent.setJMSCorrelationID("ID:AMQP_ULONG:42");
        sent.setJMSType("type");
        Topic answers = own.createTopic("answers");
        sent.setJMSReplyTo(answers);
        sent.setStringProperty("JMSXGroupID", "group");
        MessageProducer sender = own.createProducer(there);
        sender.setPriority(7);
        sender.setTimeToLive(3_600_000);
        sender.send(sent);
        gateway.crash();
        Message got = next(durable(connectTo(gateway, "c"), there));
        assertEquals(sent.getJMSMessageID(), got.getJMSMessageID());
        assertEquals("ID:AMQP_ULONG:42", got.getJMSCorrelationID());
        assertEquals("type", got.getJMSType());
        assertEquals(answers, got.getJMSReplyTo());
        assertEquals("group", got.getStringProperty("JMSXGroupID"));
        assertEquals(7, got.getJMSPriority());
        assertEquals(sent.getJMSExpiration(), got.getJMSExpiration());
        assertEquals(sent.getJMSTimestamp(), got.getJMSTimestamp());
        assertEquals(1, got.getIntProperty("JMSXDeliveryCount"));
    }
}
