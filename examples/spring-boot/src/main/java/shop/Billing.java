package shop;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.context.annotation.Profile;
import org.springframework.jms.annotation.JmsListener;
import org.springframework.messaging.handler.annotation.Header;
import org.springframework.messaging.handler.annotation.SendTo;
import org.springframework.stereotype.Component;

/**
 * Takes the orders of the shared durable subscription `billing`, each in a transaction: the order
 * is acknowledged and its invoice sent, or neither. An exception rolls it back, and the order comes
 * again; after ten attempts the gateway makes a dead letter of it.
 */
@Component
@Profile("billing")
class Billing {
    private static final Logger LOG = LoggerFactory.getLogger(Billing.class);

    @JmsListener(destination = "orders", subscription = "billing")
    @SendTo("invoices")
    String bill(@Header("order") long order, @Header("cents") long cents) {
        if (cents < 0) {
            throw new IllegalArgumentException("order " + order + ": " + cents + " cents");
        }
        LOG.info("billed order {}: {} cents", order, cents);
        return "order " + order + ": " + cents + " cents, please";
    }
}
