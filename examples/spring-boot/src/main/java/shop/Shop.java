package shop;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.boot.ApplicationArguments;
import org.springframework.boot.ApplicationRunner;
import org.springframework.context.annotation.Profile;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.stereotype.Component;
import org.springframework.transaction.support.TransactionTemplate;

/** Publishes ten orders in one transaction: all of them, or none. */
@Component
@Profile("shop")
class Shop implements ApplicationRunner {
    private static final Logger LOG = LoggerFactory.getLogger(Shop.class);
    private static final int ORDERS = 10;

    private final JmsTemplate jms;
    private final TransactionTemplate transaction;

    Shop(JmsTemplate jms, TransactionTemplate transaction) {
        this.jms = jms;
        this.transaction = transaction;
    }

    @Override
    public void run(ApplicationArguments arguments) {
        transaction.executeWithoutResult(begun -> {
            for (int number = 1; number <= ORDERS; number++) {
                order(number, number == 7 ? -1 : 1_000 + number); // nobody can bill the seventh
            }
        });
        LOG.info("published {} orders", ORDERS); // they are on the disk
    }

    private void order(long number, long cents) {
        jms.convertAndSend("orders", "pizza", order -> {
            order.setLongProperty("order", number);
            order.setLongProperty("cents", cents);
            return order;
        });
    }
}
