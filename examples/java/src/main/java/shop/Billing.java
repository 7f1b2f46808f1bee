package shop;

import jakarta.jms.JMSConsumer;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.Topic;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Takes the orders of the shared durable subscription `billing`, one by one, until Ctrl-C or
 * SIGTERM. Start several: they share the orders.
 */
public final class Billing {
    /** Qpid JMS's own mode: `acknowledge` is for this message, not for all of the session. */
    private static final int INDIVIDUAL_ACKNOWLEDGE = 101;
    /** AMQP's outcome `rejected`: for ever, so the order becomes a dead letter. */
    private static final int REJECTED = 2;

    /** So long may it take to bring the order in hand to its end when the program is stopped. */
    private static final long IN_HAND_MS_MAX = 5_000;

    private static volatile boolean stopping;

    public static void main(String[] arguments) {
        String url = System.getenv().getOrDefault("AMQP_URL", "amqp://127.0.0.1:5672");
        // failover: it connects again by itself, and the subscription goes on.
        JmsConnectionFactory factory =
                new JmsConnectionFactory("failover:(" + url + ")?jms.prefetchPolicy.all=10");
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            join(main); // Java ends when its hooks have
        }));
        try (JMSContext context = factory.createContext(INDIVIDUAL_ACKNOWLEDGE)) {
            Topic orders = context.createTopic("orders");
            JMSConsumer consumer = context.createSharedDurableConsumer(orders, "billing");
            while (!stopping) {
                Message order = consumer.receive(500);
                if (order != null) {
                    settle(order);
                }
            }
        } catch (JMSException failure) {
            throw new IllegalStateException(failure);
        }
        // What was prefetched and isn't acknowledged goes to others; the subscription stays.
    }

    private static void settle(Message order) throws JMSException {
        long number = order.getLongProperty("order");
        long cents = order.getLongProperty("cents");
        if (cents < 0) {
            System.out.println("rejected order " + number + ": " + cents + " cents");
            order.setIntProperty("JMS_AMQP_ACK_TYPE", REJECTED);
        } else {
            System.out.println("billed order " + number + ": " + cents + " cents");
        }
        order.acknowledge();
    }

    private static void join(Thread thread) {
        try {
            thread.join(IN_HAND_MS_MAX);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
