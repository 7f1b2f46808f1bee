package jms;

import jakarta.jms.Connection;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Consumers that don't want what their own client publishes. */
class NoLocalTest extends OneClient {
    private MessageConsumer noLocal() throws Exception {
        return auto(connection).createDurableConsumer(topic, "s", null, true);
    }

    /** One of its own, then one of another. */
    private void publishBoth() throws Exception {
        publish(connection, topic, "own");
        publish(connect(), topic, "foreign");
    }

    @Test
    @DisplayName("A no-local consumer doesn't receive what its own connection publishes.")
    void plain() throws Exception {
        MessageConsumer consumer = session.createConsumer(topic, null, true);
        MessageConsumer other = session.createConsumer(topic);
        publishBoth();
        expect(consumer, "foreign");
        expectNothing(consumer);
        expect(other, "own", "foreign");
    }

    @Test
    @DisplayName("It holds for what a producer without a destination sends.")
    void anonymousProducer() throws Exception {
        MessageConsumer consumer = session.createConsumer(topic, null, true);
        session.createProducer(null).send(topic, session.createTextMessage("own"));
        Session foreign = auto(connect());
        foreign.createProducer(null).send(topic, foreign.createTextMessage("foreign"));
        expect(consumer, "foreign");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("A durable no-local subscription keeps the rule while its consumer is away.")
    void whileAway() throws Exception {
        noLocal().close();
        publishBoth();
        MessageConsumer consumer = noLocal();
        expect(consumer, "foreign");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("It is the client's own, over its connections: what it publishes later, too.")
    void overConnections() throws Exception {
        noLocal().close();
        connection.close();
        connection = connect(name("c"));
        publishBoth();
        MessageConsumer consumer = noLocal();
        expect(consumer, "foreign");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("It survives the death of the gateway.")
    void survivesKill() throws Exception {
        Gateway gateway = ownGateway();
        Connection before = connectTo(gateway, "c");
        auto(before).createDurableConsumer(topic, "s", null, true).close();
        publish(before, topic, "own");
        publish(connectTo(gateway, "other"), topic, "foreign");
        gateway.crash();
        Connection after = connectTo(gateway, "c");
        publish(after, topic, "own again");
        publish(connectTo(gateway, "other"), topic, "foreign again");
        MessageConsumer consumer = auto(after).createDurableConsumer(topic, "s", null, true);
        expect(consumer, "foreign", "foreign again");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("To want it or not makes two definitions: the subscription begins anew.")
    void redefined() throws Exception {
        noLocal().close();
        publish(connect(), topic, "lost with the redefinition");
        MessageConsumer consumer = again();
        publish(connection, topic, "own");
        expect(consumer, "own");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("It goes together with a selector.")
    void withSelector() throws Exception {
        MessageConsumer consumer = session.createConsumer(topic, "JMSType = 'order'", true);
        for (Session sender : new Session[] {session, auto(connect(name("other")))}) {
            for (String type : new String[] {"order", "bill"}) {
                jakarta.jms.Message message = sender.createTextMessage(type);
                message.setJMSType(type);
                sender.createProducer(topic).send(message);
            }
        }
        expect(consumer, "order");
        expectNothing(consumer);
    }

    @Test
    @DisplayName("Many of its own do not stand in the way of the one that is foreign.")
    void manyOfItsOwn() throws Exception {
        MessageConsumer consumer = noLocal();
        publishMany(connection, topic, 5_000);
        publish(connect(), topic, "foreign");
        expect(consumer, "foreign");
        expectNothing(consumer);
    }
}
