package shop;

import jakarta.jms.ConnectionFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.autoconfigure.jms.DefaultJmsListenerContainerFactoryConfigurer;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.core.NestedExceptionUtils;
import org.springframework.jms.config.DefaultJmsListenerContainerFactory;
import org.springframework.jms.connection.JmsTransactionManager;

/** The profile says what it is: `shop` publishes orders and ends, `billing` consumes them. */
@SpringBootApplication
public class OrdersApplication {
    private static final Logger LOG = LoggerFactory.getLogger(OrdersApplication.class);

    public static void main(String[] arguments) {
        ConfigurableApplicationContext running = SpringApplication.run(OrdersApplication.class, arguments);
        if (running.getEnvironment().matchesProfiles("shop")) {
            running.close(); // it has published; billing goes on until SIGTERM
        }
    }

    /** For what a shop publishes as a whole. */
    @Bean
    JmsTransactionManager transactionManager(ConnectionFactory connections) {
        return new JmsTransactionManager(connections);
    }

    /** Spring Boot's own, for subscriptions that are shared, and answers that go to a queue. */
    @Bean
    DefaultJmsListenerContainerFactory jmsListenerContainerFactory(
            ConnectionFactory connections, DefaultJmsListenerContainerFactoryConfigurer configurer) {
        DefaultJmsListenerContainerFactory factory = new DefaultJmsListenerContainerFactory();
        configurer.configure(factory, connections);
        factory.setSubscriptionShared(true);
        factory.setReplyPubSubDomain(false);
        factory.setErrorHandler(
                failure -> LOG.warn("rolled back: {}", NestedExceptionUtils.getMostSpecificCause(failure).getMessage()));
        return factory;
    }
}
