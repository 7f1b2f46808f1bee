package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import jakarta.jms.Connection;
import jakarta.jms.IllegalStateException;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Durable subscriptions that are one consumer's alone. */
class DurableTest extends OneClient {
    @Test
    @DisplayName("A durable subscription keeps what is published while its consumer is away.")
    void keepsWhileAway() throws Exception {
        durable(connection, topic).close();
        connection.close();
        publish(connect(), topic, "one", "two", "three");
        MessageConsumer again = durable(connect(name("c")), topic);
        expect(again, "one", "two", "three");
        expectNothing(again);
    }

    @Test
    @DisplayName("createDurableSubscriber and createDurableConsumer mean the same subscription.")
    void oldAndNewNames() throws Exception {
        session.createDurableSubscriber(topic, "s").close();
        publish(connection, topic, "one");
        expect(session.createDurableConsumer(topic, "s"), "one");
    }

    @Test
    @DisplayName("A durable subscription and what it is owed survive an orderly restart.")
    void survivesStop() throws Exception {
        Gateway gateway = ownGateway();
        Connection connection = connectTo(gateway, "c");
        MessageConsumer consumer = durable(connection, topic);
        publish(connection, topic, "one", "two", "three");
        expect(consumer, "one");
        connection.close();
        gateway.restart();
        MessageConsumer again = durable(connectTo(gateway, "c"), topic);
        expect(again, "two", "three");
        expectNothing(again);
    }

    @Test
    @DisplayName("A durable subscription and what it is owed survive the death of the gateway.")
    void survivesKill() throws Exception {
        Gateway gateway = ownGateway();
        waiting(connectTo(gateway, "c"), topic, "one", "two");
        gateway.crash();
        MessageConsumer again = durable(connectTo(gateway, "c"), topic);
        expect(again, "one", "two");
        expectNothing(again);
    }

    @Test
    @DisplayName("After unsubscribe the subscription is gone, and what it was owed with it.")
    void unsubscribed() throws Exception {
        session.createDurableConsumer(topic, "s").close();
        publish(connection, topic, "one");
        session.unsubscribe("s");
        expectNothing(session.createDurableConsumer(topic, "s"));
    }

    @Test
    @DisplayName("An unsubscribe is remembered over a kill of the gateway.")
    void unsubscribeSurvivesKill() throws Exception {
        Gateway gateway = ownGateway();
        Session before = auto(connectTo(gateway, "c"));
        before.createDurableConsumer(topic, "s").close();
        before.unsubscribe("s");
        gateway.crash();
        Session again = auto(connectTo(gateway, "c"));
        assertThrows(InvalidDestinationException.class, () -> again.unsubscribe("s"));
    }

    @Test
    @DisplayName("Unsubscribing what isn't there is an InvalidDestinationException.")
    void unsubscribeUnknown() throws Exception {
        assertThrows(InvalidDestinationException.class, () -> session.unsubscribe("nobody"));
    }

    @Test
    @DisplayName("Unsubscribing twice is an InvalidDestinationException the second time.")
    void unsubscribeTwice() throws Exception {
        session.createDurableConsumer(topic, "s").close();
        session.unsubscribe("s");
        assertThrows(InvalidDestinationException.class, () -> session.unsubscribe("s"));
    }

    @Test
    @DisplayName("A subscription with an active consumer can't be unsubscribed, and goes on.")
    void unsubscribeActive() throws Exception {
        MessageConsumer consumer = session.createDurableConsumer(topic, "s");
        assertThrows(JMSException.class, () -> session.unsubscribe("s"));
        publish(connection, topic, "one");
        expect(consumer, "one");
    }

    @Test
    @DisplayName("Another topic under the same name begins the subscription anew.")
    void redefinedTopic() throws Exception {
        Topic before = session.createTopic(name("before"));
        Topic after = session.createTopic(name("after"));
        session.createDurableConsumer(before, "s").close();
        publish(connection, before, "lost with the redefinition");
        MessageConsumer consumer = session.createDurableConsumer(after, "s");
        publish(connection, before, "elsewhere");
        publish(connection, after, "one");
        expect(consumer, "one");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("Two clients with one subscription name have a subscription each.")
    void clientsAreApart() throws Exception {
        MessageConsumer first = durable(connection, topic);
        MessageConsumer second = durable(connect(name("other")), topic);
        publish(connection, topic, "one", "two");
        expect(first, "one", "two");
        expect(second, "one", "two");
    }

    @Test
    @DisplayName("Two subscriptions of one client receive every message each.")
    void namesAreApart() throws Exception {
        MessageConsumer first = auto(connection).createDurableConsumer(topic, "a");
        MessageConsumer second = auto(connection).createDurableConsumer(topic, "b");
        publish(connection, topic, "one");
        expect(first, "one");
        expect(second, "one");
    }

    @Test
    @DisplayName("What a closed consumer had prefetched comes again as if for the first time.")
    void prefetchedComesAgain() throws Exception {
        MessageConsumer consumer = session.createDurableConsumer(topic, "s");
        publish(connection, topic, "one", "two", "three");
        expect(consumer, "one");
        consumer.close();
        MessageConsumer again = session.createDurableConsumer(topic, "s");
        expectCounted(again, "two", 1);
        expect(again, "three");
    }

    @Test
    @DisplayName("A second consumer of an exclusive subscription is refused, the first goes on.")
    void secondConsumerRefused() throws Exception {
        MessageConsumer consumer = durable(connection, topic);
        Session other = auto(connection);
        assertThrows(JMSException.class, () -> other.createDurableConsumer(topic, "s"));
        publish(connection, topic, "one");
        expect(consumer, "one");
    }

    @Test
    @DisplayName("A durable subscription that was exclusive can't be taken as a shared one.")
    void exclusiveIsNotShared() throws Exception {
        session.createDurableConsumer(topic, "s").close();
        publish(connection, topic, "kept");
        assertThrows(JMSException.class, () -> session.createSharedDurableConsumer(topic, "s"));
        expect(session.createDurableConsumer(topic, "s"), "kept");
    }

    @Test
    @DisplayName("A durable subscription that was shared can't be taken as an exclusive one.")
    void sharedIsNotExclusive() throws Exception {
        session.createSharedDurableConsumer(topic, "s").close();
        publish(connection, topic, "kept");
        assertThrows(JMSException.class, () -> session.createDurableConsumer(topic, "s"));
        expect(session.createSharedDurableConsumer(topic, "s"), "kept");
    }

    @Test
    @DisplayName("Without a client id there is no exclusive durable subscription.")
    void needsClientId() throws Exception {
        Session anonymous = auto(connect());
        assertThrows(IllegalStateException.class, () -> anonymous.createDurableConsumer(topic, "s"));
    }

    @Test
    @DisplayName("A hundred durable subscriptions of one client all survive a restart.")
    void manySurvive() throws Exception {
        Gateway gateway = ownGateway();
        Connection connection = connectTo(gateway, "c");
        Session before = auto(connection);
        for (int i = 0; i < 100; i++) {
            before.createDurableConsumer(topic, "s" + i).close();
        }
        publish(connection, topic, "one");
        connection.close();
        gateway.restart();
        Session again = auto(connectTo(gateway, "c"));
        for (int i = 0; i < 100; i++) {
            expect(again.createDurableConsumer(topic, "s" + i), "one");
        }
    }

    @Test
    @DisplayName("Two subscriptions see the messages of two producers in the same order.")
    void oneOrderForAll() throws Exception {
        MessageConsumer one = auto(connection).createDurableConsumer(topic, "a");
        MessageConsumer other = auto(connection).createDurableConsumer(topic, "b");
        List<Thread> publishers = new ArrayList<>();
        for (String who : List.of("x", "y")) {
            Connection publisher = connect();
            Thread thread = new Thread(() -> {
                try {
                    for (int i = 0; i < 50; i++) {
                        publish(publisher, topic, who + i);
                    }
                } catch (JMSException error) {
                    throw new java.lang.IllegalStateException(error);
                }
            });
            publishers.add(thread);
            thread.start();
        }
        List<String> first = new ArrayList<>();
        List<String> second = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            first.add(text(one));
            second.add(text(other));
        }
        assertEquals(first, second);
        for (Thread thread : publishers) {
            thread.join();
        }
    }

    @Test
    @DisplayName("The client keeps the bar for itself: a subscription's name has none.")
    void nameWithABar() {
        assertThrows(JMSException.class, () -> session.createDurableConsumer(topic, "a|b"));
        assertThrows(JMSException.class, () -> session.createSharedConsumer(topic, "a|global"));
    }
}
