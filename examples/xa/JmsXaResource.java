import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Session;
import jakarta.jms.TransactionRolledBackException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.qpid.jms.JmsSession;
import org.apache.qpid.proton.amqp.Binary;

/**
 * A transacted session of the Qpid JMS client as one resource of distributed transactions.
 *
 * <p>The session's open transaction is the work of the branch. {@code prepare} gives it the branch's
 * id at {@code $management} and commits the session: with the id that prepares it. After that the
 * session is free, and the branch ends by its id: from here, or after a crash from anywhere.
 *
 * <p>Without a session it serves recovery. It isn't for several threads at once, as sessions aren't.
 */
public final class JmsXaResource implements XAResource {
    private static final HexFormat HEX = HexFormat.of();
    private static final long ANSWER_MS = 60_000;
    private static final int OK_BELOW = 300;
    private static final int ABSENT = 404;

    private final Session work;
    private final Session asking;
    private final MessageProducer requests;
    private final MessageConsumer answers;
    private final Destination replyTo;
    private String open = "";

    /** {@code work} is a transacted session of this connection, or null: to recover. */
    public JmsXaResource(Connection connection, Session work) throws JMSException {
        this.work = work;
        asking = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        requests = asking.createProducer(asking.createQueue("$management"));
        replyTo = asking.createTemporaryQueue();
        answers = asking.createConsumer(replyTo);
        connection.start();
    }

    @Override
    public void start(Xid xid, int flags) throws XAException {
        if (work == null || !(open.isEmpty() || open.equals(idOf(xid)))) {
            throw new XAException(XAException.XAER_PROTO); // a session is in one transaction
        }
        open = idOf(xid);
    }

    @Override
    public void end(Xid xid, int flags) {
        // What the session does until it is started again isn't expected: the caller keeps still.
    }

    @Override
    public int prepare(Xid xid) throws XAException {
        String id = idOf(xid);
        boolean works;
        try {
            Map<String, Object> said = Map.of("transaction", transaction());
            Answer answer = ask("PREPARE", id, said);
            if (answer.status >= OK_BELOW) {
                rollBack();
                throw failure(XAException.XA_RBROLLBACK, answer.text);
            }
            works = Boolean.TRUE.equals(answer.body.get("works"));
            open = "";
            work.commit();
            // A send that waited for credit may have come behind PREPARE: only READ is certain.
            works = works || ask("READ", id, Map.of()).status != ABSENT;
        } catch (TransactionRolledBackException error) {
            throw failure(XAException.XA_RBROLLBACK, error.getMessage());
        } catch (JMSException error) {
            throw failure(XAException.XAER_RMFAIL, error.getMessage()); // recovery tells
        }
        return works ? XA_OK : XA_RDONLY; // nothing waits where nothing was done
    }

    @Override
    public void commit(Xid xid, boolean onePhase) throws XAException {
        try {
            if (onePhase) {
                open = "";
                work.commit();
            } else {
                finish("COMMIT", xid);
            }
        } catch (TransactionRolledBackException error) {
            throw failure(XAException.XA_RBROLLBACK, error.getMessage());
        } catch (JMSException error) {
            throw failure(XAException.XAER_RMFAIL, error.getMessage());
        }
    }

    @Override
    public void rollback(Xid xid) throws XAException {
        try {
            if (open.equals(idOf(xid))) {
                rollBack();
            } else {
                finish("ROLLBACK", xid);
            }
        } catch (JMSException error) {
            throw failure(XAException.XAER_RMFAIL, error.getMessage());
        }
    }

    /** All that this user has prepared, of all transaction managers: each knows its own. */
    @Override
    public Xid[] recover(int flags) throws XAException {
        List<Xid> found = new ArrayList<>();
        if ((flags & TMSTARTRSCAN) == 0) {
            return new Xid[0];
        }
        try {
            for (int total = 1; found.size() < total; ) {
                Answer answer = ask("QUERY", "", Map.of("offset", found.size()));
                if (answer.status >= OK_BELOW) {
                    throw failure(XAException.XAER_RMFAIL, answer.text);
                }
                if (answer.body.get("missing") instanceof Map<?, ?> away && !away.isEmpty()) {
                    throw failure(XAException.XAER_RMFAIL, "logs that are away: " + away);
                }
                total = ((Number) answer.body.get("total")).intValue();
                List<?> names = (List<?>) answer.body.get("attributeNames");
                List<?> rows = (List<?>) answer.body.get("results");
                if (rows.isEmpty()) {
                    break;
                }
                for (Object row : rows) {
                    found.add(Id.of((String) ((List<?>) row).get(names.indexOf("name"))));
                }
            }
        } catch (JMSException error) {
            throw failure(XAException.XAER_RMFAIL, error.getMessage());
        }
        return found.toArray(new Xid[0]);
    }

    @Override
    public void forget(Xid xid) throws XAException {
        throw new XAException(XAException.XAER_NOTA); // the engine decides nothing by itself
    }

    @Override
    public boolean isSameRM(XAResource other) {
        return other == this; // branches of two sessions are prepared each by itself
    }

    @Override
    public int getTransactionTimeout() {
        return 0;
    }

    @Override
    public boolean setTransactionTimeout(int seconds) {
        return false; // amqp.transaction_timeout_seconds of the gateway is what holds
    }

    private void rollBack() throws JMSException {
        open = "";
        work.rollback();
    }

    private void finish(String operation, Xid xid) throws JMSException, XAException {
        Answer answer = ask(operation, idOf(xid), Map.of());
        if (answer.status == ABSENT) {
            throw failure(XAException.XAER_NOTA, answer.text);
        }
        if (answer.status >= OK_BELOW) {
            // Its log may be away, or moving. XAER_RMERR would say that the branch is rolled back,
            // and nobody would ask again.
            throw failure(XAException.XAER_RMFAIL, answer.text);
        }
    }

    /** The id that the gateway has given to the session's open transaction. */
    private byte[] transaction() {
        Object id = ((JmsSession) work).getTransactionContext().getTransactionId().getProviderTxId();
        Binary binary = (Binary) id;
        byte[] bytes = new byte[binary.getLength()];
        binary.asByteBuffer().get(bytes);
        return bytes;
    }

    private record Answer(int status, String text, Map<?, ?> body) {}

    private Answer ask(String operation, String name, Map<String, Object> said) throws JMSException {
        MapMessage request = asking.createMapMessage();
        request.setStringProperty("operation", operation);
        request.setStringProperty("type", "transaction");
        if (!name.isEmpty()) {
            request.setStringProperty("name", name);
        }
        for (Map.Entry<String, Object> one : said.entrySet()) {
            request.setObject(one.getKey(), one.getValue());
        }
        request.setJMSReplyTo(replyTo);
        requests.send(request);
        Message answer = answers.receive(ANSWER_MS);
        if (answer == null) {
            throw new JMSException("no answer from $management within " + ANSWER_MS + " ms");
        }
        int status = answer.getIntProperty("statusCode");
        Map<?, ?> body = (Map<?, ?>) ((ObjectMessage) answer).getObject();
        return new Answer(status, answer.getStringProperty("statusDescription"), body);
    }

    private static String idOf(Xid xid) {
        byte[] global = xid.getGlobalTransactionId();
        byte[] branch = xid.getBranchQualifier();
        return xid.getFormatId() + ":" + HEX.formatHex(global) + ":" + HEX.formatHex(branch);
    }

    private static XAException failure(int code, String text) {
        XAException failed = new XAException(text);
        failed.errorCode = code;
        return failed;
    }

    /** An id as the engine writes it. */
    private record Id(int format, byte[] global, byte[] branch) implements Xid {
        static Id of(String text) {
            String[] parts = text.split(":", -1);
            return new Id(Integer.parseInt(parts[0]), HEX.parseHex(parts[1]), HEX.parseHex(parts[2]));
        }

        @Override
        public int getFormatId() {
            return format;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return global.clone();
        }

        @Override
        public byte[] getBranchQualifier() {
            return branch.clone();
        }
    }
}
