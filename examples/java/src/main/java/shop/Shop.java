package shop;

import jakarta.jms.JMSContext;
import jakarta.jms.JMSProducer;
import jakarta.jms.JMSRuntimeException;
import jakarta.jms.Topic;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Publishes ten orders in one transaction: all of them, or none. */
public final class Shop {
    private static final int ORDERS = 10;

    public static void main(String[] arguments) {
        String url = System.getenv().getOrDefault("AMQP_URL", "amqp://127.0.0.1:5672");
        JmsConnectionFactory factory = new JmsConnectionFactory(url);
        try (JMSContext context = factory.createContext(JMSContext.SESSION_TRANSACTED)) {
            Topic orders = context.createTopic("orders");
            JMSProducer producer = context.createProducer();
            for (int number = 1; number <= ORDERS; number++) {
                producer.setProperty("order", number);
                producer.setProperty("cents", number == 7 ? -1 : 1_000 + number); // nobody can bill the seventh
                producer.send(orders, "pizza");
            }
            context.commit(); // returns when all are on the disk; without it, none has ever been sent
            System.out.println("published " + ORDERS + " orders");
        } catch (JMSRuntimeException failure) {
            System.err.println("nothing was published: " + failure.getMessage());
            System.exit(1);
        }
    }
}
