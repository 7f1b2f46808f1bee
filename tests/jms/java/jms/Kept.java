package jms;

import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.Topic;

/** What keeps messages for a consumer that may come later; most rules hold for all of it. */
enum Kept {
    /** The durable subscription `s` of a topic. */
    SUBSCRIPTION {
        @Override
        MessageConsumer consumer(Session session, Destination from) throws JMSException {
            return session.createDurableConsumer((Topic) from, "s");
        }
    },
    /** The shared durable subscription `s` of a topic, as the client's own. */
    SHARED {
        @Override
        MessageConsumer consumer(Session session, Destination from) throws JMSException {
            return session.createSharedDurableConsumer((Topic) from, "s");
        }
    },
    QUEUE {
        @Override
        String id(String clientId, Destination from) throws JMSException {
            return "queue/" + ((Queue) from).getQueueName();
        }

        @Override
        String word(Destination place) throws JMSException {
            return "queue://" + ((Queue) place).getQueueName();
        }

        @Override
        Destination named(Session session, String name) throws JMSException {
            return session.createQueue(name);
        }

        @Override
        MessageConsumer consumer(Session session, Destination from) throws JMSException {
            return session.createConsumer((Queue) from);
        }
    };

    /** Where to publish. */
    Destination named(Session session, String name) throws JMSException {
        return session.createTopic(name);
    }

    /** What the gateway calls what this client has there. */
    String id(String clientId, Destination from) throws JMSException {
        return "container/" + clientId + "/s";
    }

    /** What the log calls the place. */
    String word(Destination place) throws JMSException {
        return ((Topic) place).getTopicName();
    }

    abstract MessageConsumer consumer(Session session, Destination from) throws JMSException;

    /** Keep these texts: the subscription, or the queue, is there before they are. */
    void keep(Connection connection, Destination to, String... texts) throws JMSException {
        consumer(Client.auto(connection), to).close();
        Client.publish(connection, to, texts);
    }
}
