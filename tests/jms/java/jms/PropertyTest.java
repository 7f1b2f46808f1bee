package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;

import jakarta.jms.Message;
import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Properties keep their names, types and values. */
class PropertyTest extends RoundTrip {
    static List<Object> values() {
        return List.of(
                true, false, Byte.MIN_VALUE, Byte.MAX_VALUE, Short.MIN_VALUE, Short.MAX_VALUE,
                Integer.MIN_VALUE, -1, 0, Integer.MAX_VALUE, Long.MIN_VALUE, 0L, Long.MAX_VALUE,
                Float.MIN_VALUE, Float.NaN, Double.MAX_VALUE, Double.POSITIVE_INFINITY,
                "", "größe 主题 🚀", "x".repeat(100_000));
    }

    @ParameterizedTest
    @MethodSource("values")
    @DisplayName("A property of every type comes back with its type and its value.")
    void types(Object value) throws Exception {
        Message message = session.createMessage();
        message.setObjectProperty("p", value);
        assertEquals(value, through(message).getObjectProperty("p"));
    }

    @Test
    @DisplayName("A property that is null is there, and null.")
    void nullValue() throws Exception {
        Message message = session.createMessage();
        message.setStringProperty("p", null);
        assertNull(through(message).getStringProperty("p"));
    }

    @Test
    @DisplayName("A property that wasn't set isn't there.")
    void absent() throws Exception {
        Message got = through(session.createMessage());
        assertFalse(got.propertyExists("p"));
        assertNull(got.getStringProperty("p"));
    }

    @Test
    @DisplayName("Two hundred properties come back, each with its value.")
    void many() throws Exception {
        Message message = session.createMessage();
        for (int i = 0; i < 200; i++) {
            message.setIntProperty("p" + i, i);
        }
        Message got = through(message);
        for (int i = 0; i < 200; i++) {
            assertEquals(i, got.getIntProperty("p" + i));
        }
    }

    @Test
    @DisplayName("A message that was received can be sent on with its properties.")
    void sentOn() throws Exception {
        Message message = session.createTextMessage("one");
        message.setStringProperty("p", "kept");
        Message again = through(through(message));
        assertEquals("kept", again.getStringProperty("p"));
        assertEquals("one", again.getBody(String.class));
    }
}
