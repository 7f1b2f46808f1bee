package jms;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Every kind of body comes back as it was sent. */
class BodyTest extends RoundTrip {
    static List<String> texts() {
        return List.of("", "a", "größer als 主题 🚀", "\u0000\n\t\"'\\", "x".repeat(1_000_000));
    }

    @ParameterizedTest
    @MethodSource("texts")
    @DisplayName("A text message keeps its text, empty, foreign or a million characters long.")
    void text(String text) throws Exception {
        assertEquals(text, through(session.createTextMessage(text), TextMessage.class).getText());
    }

    @Test
    @DisplayName("A text message without a text stays without.")
    void noText() throws Exception {
        assertNull(through(session.createTextMessage(), TextMessage.class).getText());
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 255, 256, 65_536, 1_000_000})
    @DisplayName("A bytes message keeps its bytes, however many.")
    void bytes(int count) throws Exception {
        byte[] sent = new byte[count];
        new Random(count).nextBytes(sent);
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(sent);
        BytesMessage got = through(message, BytesMessage.class);
        assertEquals(count, got.getBodyLength());
        byte[] read = new byte[count];
        got.readBytes(read);
        assertArrayEquals(sent, read);
    }

    @Test
    @DisplayName("A bytes message keeps every primitive that was written to it.")
    void bytesOfPrimitives() throws Exception {
        BytesMessage message = session.createBytesMessage();
        message.writeBoolean(true);
        message.writeByte((byte) -1);
        message.writeShort(Short.MIN_VALUE);
        message.writeChar('ß');
        message.writeInt(Integer.MAX_VALUE);
        message.writeLong(Long.MIN_VALUE);
        message.writeFloat(1.5f);
        message.writeDouble(Double.MIN_VALUE);
        message.writeUTF("größe");
        BytesMessage got = through(message, BytesMessage.class);
        assertTrue(got.readBoolean());
        assertEquals((byte) -1, got.readByte());
        assertEquals(Short.MIN_VALUE, got.readShort());
        assertEquals('ß', got.readChar());
        assertEquals(Integer.MAX_VALUE, got.readInt());
        assertEquals(Long.MIN_VALUE, got.readLong());
        assertEquals(1.5f, got.readFloat());
        assertEquals(Double.MIN_VALUE, got.readDouble());
        assertEquals("größe", got.readUTF());
    }

    @Test
    @DisplayName("A map message keeps every type of value, null too.")
    void map() throws Exception {
        MapMessage message = session.createMapMessage();
        message.setBoolean("boolean", true);
        message.setByte("byte", Byte.MIN_VALUE);
        message.setShort("short", Short.MAX_VALUE);
        message.setChar("char", '主');
        message.setInt("int", Integer.MIN_VALUE);
        message.setLong("long", Long.MAX_VALUE);
        message.setFloat("float", Float.MAX_VALUE);
        message.setDouble("double", Double.NEGATIVE_INFINITY);
        message.setString("string", "größe");
        message.setBytes("bytes", new byte[] {1, -2, 3});
        message.setObject("null", null);
        MapMessage got = through(message, MapMessage.class);
        assertTrue(got.getBoolean("boolean"));
        assertEquals(Byte.MIN_VALUE, got.getByte("byte"));
        assertEquals(Short.MAX_VALUE, got.getShort("short"));
        assertEquals('主', got.getChar("char"));
        assertEquals(Integer.MIN_VALUE, got.getInt("int"));
        assertEquals(Long.MAX_VALUE, got.getLong("long"));
        assertEquals(Float.MAX_VALUE, got.getFloat("float"));
        assertEquals(Double.NEGATIVE_INFINITY, got.getDouble("double"));
        assertEquals("größe", got.getString("string"));
        assertArrayEquals(new byte[] {1, -2, 3}, got.getBytes("bytes"));
        assertTrue(got.itemExists("null"));
        assertNull(got.getObject("null"));
        assertEquals(11, Collections.list(got.getMapNames()).size());
    }

    @Test
    @DisplayName("An empty map message stays an empty map message.")
    void emptyMap() throws Exception {
        assertFalse(through(session.createMapMessage(), MapMessage.class).getMapNames().hasMoreElements());
    }

    @Test
    @DisplayName("A stream message keeps its values, their types and their order.")
    void stream() throws Exception {
        List<Object> values = new ArrayList<>(
                List.of(true, (byte) 1, (short) 2, 'c', 3, 4L, 5.5f, 6.5, "seven", new byte[] {8}));
        values.add(null);
        StreamMessage message = session.createStreamMessage();
        for (Object value : values) {
            message.writeObject(value);
        }
        StreamMessage got = through(message, StreamMessage.class);
        for (Object value : values) {
            Object read = got.readObject();
            if (value instanceof byte[] bytes) {
                assertArrayEquals(bytes, (byte[]) read);
            } else {
                assertEquals(value, read);
            }
        }
    }

    @Test
    @DisplayName("An object message keeps its object.")
    void object() throws Exception {
        ArrayList<String> sent = new ArrayList<>(List.of("one", "zwei", "三"));
        ObjectMessage got = through(session.createObjectMessage(sent), ObjectMessage.class);
        assertEquals(sent, got.getObject());
    }

    @Test
    @DisplayName("An object message without an object stays without.")
    void noObject() throws Exception {
        assertNull(through(session.createObjectMessage(), ObjectMessage.class).getObject());
    }

    @Test
    @DisplayName("An object message in AMQP's own types keeps its object.")
    void typedObject() throws Exception {
        ObjectMessage message = session.createObjectMessage();
        message.setBooleanProperty("JMS_AMQP_TYPED_ENCODING", true);
        message.setObject(new ArrayList<>(List.of("one", 2, 3L)));
        ObjectMessage got = through(message, ObjectMessage.class);
        assertEquals(List.of("one", 2, 3L), got.getObject());
    }

    @Test
    @DisplayName("A plain message has no body, and is none of the other kinds.")
    void plain() throws Exception {
        Message got = through(session.createMessage(), Message.class);
        assertFalse(got instanceof TextMessage);
        assertFalse(got instanceof BytesMessage);
        assertFalse(got instanceof MapMessage);
    }

    @Test
    @DisplayName("All kinds come back from the disk as they were, after the gateway was killed.")
    void allKindsSurvive() throws Exception {
        Gateway gateway = ownGateway();
        Connection connection = connectTo(gateway, "c");
        Session own = auto(connection);
        Topic topic = own.createTopic("t");
        own.createDurableConsumer(topic, "s").close();
        BytesMessage bytes = own.createBytesMessage();
        bytes.writeBytes(new byte[] {0, 1, -1});
        MapMessage map = own.createMapMessage();
        map.setInt("n", 1);
        StreamMessage stream = own.createStreamMessage();
        stream.writeLong(7);
        MessageProducer sender = own.createProducer(topic);
        for (Message one : List.of(own.createTextMessage("text"), bytes, map, stream,
                own.createObjectMessage("object"), own.createMessage())) {
            sender.send(one);
        }
        gateway.crash();
        MessageConsumer again = durable(connectTo(gateway, "c"), topic);
        assertEquals("text", assertInstanceOf(TextMessage.class, next(again)).getText());
        assertArrayEquals(new byte[] {0, 1, -1}, next(again).getBody(byte[].class));
        assertEquals(1, assertInstanceOf(MapMessage.class, next(again)).getInt("n"));
        assertEquals(7, assertInstanceOf(StreamMessage.class, next(again)).readLong());
        assertEquals("object", assertInstanceOf(ObjectMessage.class, next(again)).getObject());
        assertFalse(next(again) instanceof TextMessage);
    }
}
