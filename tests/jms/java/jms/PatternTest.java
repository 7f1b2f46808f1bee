package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Subscriptions of patterns: one subscription to all topics that match, those of tomorrow too. */
class PatternTest extends OneClient {
    /** The name of a topic of this test, whose first word is the test's own. */
    private String within(String topic) {
        return topic.replaceFirst("^\\w+", name("$0").replace(".", "-"));
    }

    private void publishTo(Connection connection, String topic, String... texts) throws Exception {
        publish(connection, auto(connection).createTopic(within(topic)), texts);
    }

    @Test
    @DisplayName("A consumer of a pattern gets what its topics get, in one order, and sees which.")
    void receivesAllThatMatch() throws Exception {
        MessageConsumer consumer = session.createConsumer(session.createTopic(within("a.*")));
        publishTo(connection, "a.one", "1");
        publishTo(connection, "a.two", "2");
        publishTo(connection, "b.one", "elsewhere");
        publishTo(connection, "a.one", "3");
        for (String[] wanted : new String[][] {{"1", "a.one"}, {"2", "a.two"}, {"3", "a.one"}}) {
            TextMessage message = (TextMessage) consumer.receive(10_000);
            assertEquals(wanted[0], message.getText());
            assertEquals(within(wanted[1]), ((Topic) message.getJMSDestination()).getTopicName());
        }
        expectNothing(consumer);
    }

    @Test
    @DisplayName("A durable subscription of a pattern keeps them over the death of the gateway.")
    void durableSurvivesKill() throws Exception {
        Gateway gateway = ownGateway();
        Connection client = connectTo(gateway, "c");
        Topic pattern = auto(client).createTopic(within("a.#"));
        auto(client).createDurableSubscriber(pattern, "d", "colour = 'red'", false).close();
        Session session = auto(client);
        for (String topic : new String[] {"a", "a.b", "a.b.c"}) {
            for (String colour : new String[] {"red", "blue"}) {
                TextMessage message = session.createTextMessage(topic + " " + colour);
                message.setStringProperty("colour", colour);
                session.createProducer(session.createTopic(within(topic))).send(message);
            }
        }
        gateway.crash();
        Connection again = connectTo(gateway, "c");
        MessageConsumer consumer =
                auto(again).createDurableSubscriber(pattern, "d", "colour = 'red'", false);
        expect(consumer, "a red", "a.b red", "a.b.c red");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("Nobody sends to a pattern, and a pattern that means nothing is refused.")
    void refusesWhatIsNone() throws Exception {
        Topic pattern = session.createTopic(within("a.*"));
        assertThrows(JMSException.class, () -> session.createProducer(pattern));
        Topic broken = session.createTopic(within("a*"));
        assertThrows(JMSException.class, () -> session.createConsumer(broken));
    }
}
