package logs;

import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Moves messages from a queue of one log to a queue of another, in a plain transacted session. */
public final class TwoLogs {
    private static final long MILLISECONDS_MAX = 60_000;

    private TwoLogs() {}

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[3]);
        try (Connection connection = new JmsConnectionFactory(arguments[0]).createConnection()) {
            connection.start();
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            MessageConsumer from = session.createConsumer(session.createQueue(arguments[1]));
            MessageProducer to = session.createProducer(session.createQueue(arguments[2]));
            for (int nth = 0; nth < 2 * count; nth++) {
                Message message = from.receive(MILLISECONDS_MAX);
                to.send(session.createTextMessage(((TextMessage) message).getText()));
                if (nth % 2 == 0) {
                    session.rollback();
                } else {
                    session.commit();
                }
            }
            to.close();
            from.close();
            MessageConsumer moved = session.createConsumer(session.createQueue(arguments[2]));
            for (int nth = 0; nth < count; nth++) {
                System.out.println(((TextMessage) moved.receive(MILLISECONDS_MAX)).getText());
            }
            session.rollback();
        }
    }
}
