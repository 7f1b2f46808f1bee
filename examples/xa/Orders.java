import com.atomikos.datasource.xa.XATransactionalResource;
import com.atomikos.icatch.config.Configuration;
import com.atomikos.icatch.config.UserTransactionServiceImp;
import com.atomikos.icatch.jta.UserTransactionManager;
import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import javax.sql.XAConnection;
import javax.transaction.Transaction;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.h2.jdbcx.JdbcDataSource;

/**
 * Takes orders from a queue, writes each to a table of H2 and sends a receipt to another queue, all
 * of it in one transaction of Atomikos.
 *
 * <p>{@code java Orders URL DATABASE LOGS [CRASH]}: what the queue "orders" has, then it ends. CRASH
 * ("before prepare", "after prepare", "before commit", "after commit") halts the process there, as a
 * kill would. {@code java Orders URL DATABASE LOGS recover} only ends what a crash has left. Both say
 * what the table has.
 */
public final class Orders {
    private static final long WAIT_MS = 2_000;
    private static final long RECOVERED_MS = 60_000;

    private final JdbcDataSource database = new JdbcDataSource();
    private final Connection connection;
    private final UserTransactionManager manager = new UserTransactionManager();

    private Orders(String url, String file, String logs) throws Exception {
        database.setUrl("jdbc:h2:" + file);
        connection = new JmsConnectionFactory(url).createConnection();
        Properties said = new Properties();
        said.setProperty("com.atomikos.icatch.log_base_dir", logs);
        said.setProperty("com.atomikos.icatch.log_base_name", "orders");
        said.setProperty("com.atomikos.icatch.tm_unique_name", "orders");
        said.setProperty("com.atomikos.icatch.recovery_delay", "500");
        // What is prepared and was never decided is rolled back after the longest time that a
        // transaction may take.
        said.setProperty("com.atomikos.icatch.default_jta_timeout", "20000");
        said.setProperty("com.atomikos.icatch.max_timeout", "20000");
        UserTransactionServiceImp service = new UserTransactionServiceImp(said);
        Configuration.addResource(new Recovered("engine") {
            @Override
            protected XAResource refreshXAConnection() {
                try {
                    return new JmsXaResource(connection, null);
                } catch (JMSException error) {
                    throw new IllegalStateException(error);
                }
            }
        });
        Configuration.addResource(new Recovered("database") {
            @Override
            protected XAResource refreshXAConnection() {
                try {
                    return database.getXAConnection().getXAResource();
                } catch (SQLException error) {
                    throw new IllegalStateException(error);
                }
            }
        });
        service.init();
        manager.setForceShutdown(true);
        manager.setStartupTransactionService(false);
        manager.init();
    }

    /** A resource that the transaction manager asks what it has prepared. */
    private abstract static class Recovered extends XATransactionalResource {
        Recovered(String name) {
            super(name);
        }

        @Override
        public boolean usesXAResource(XAResource one) {
            return one instanceof JmsXaResource || one instanceof Halting
                    ? getName().equals("engine")
                    : getName().equals("database");
        }
    }

    private int take(String crash) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageConsumer orders = session.createConsumer(session.createQueue("orders"));
        MessageProducer receipts = session.createProducer(session.createQueue("receipts"));
        connection.start();
        XAResource engine = new Halting(new JmsXaResource(connection, session), crash);
        int taken = 0;
        while (true) {
            manager.begin();
            Transaction transaction = manager.getTransaction();
            transaction.enlistResource(engine);
            Message order = orders.receive(WAIT_MS);
            if (order == null) {
                manager.rollback();
                return taken;
            }
            String text = ((TextMessage) order).getText();
            XAConnection rows = database.getXAConnection();
            transaction.enlistResource(rows.getXAResource());
            try (Statement statement = rows.getConnection().createStatement()) {
                statement.executeUpdate("insert into receipt values ('" + text + "')");
            }
            receipts.send(session.createTextMessage(text));
            manager.commit();
            rows.close();
            taken += 1;
        }
    }

    private void recovered() throws Exception {
        JmsXaResource engine = new JmsXaResource(connection, null);
        XAResource rows = database.getXAConnection().getXAResource();
        long until = System.currentTimeMillis() + RECOVERED_MS;
        int scan = XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN;
        while (engine.recover(scan).length + rows.recover(scan).length > 0) {
            if (System.currentTimeMillis() > until) {
                throw new IllegalStateException("a transaction is prepared yet");
            }
            Thread.sleep(500);
        }
    }

    private List<String> rows() throws SQLException {
        List<String> found = new ArrayList<>();
        try (java.sql.Connection rows = database.getConnection();
                Statement statement = rows.createStatement();
                ResultSet ids = statement.executeQuery("select id from receipt order by id")) {
            while (ids.next()) {
                found.add(ids.getString(1));
            }
        }
        return found;
    }

    /** Halts the process when its turn has come. */
    private static final class Halting implements XAResource {
        private final XAResource inner;
        private final String where;

        Halting(XAResource inner, String where) {
            this.inner = inner;
            this.where = where;
        }

        private void at(String place) {
            if (place.equals(where)) {
                Runtime.getRuntime().halt(9);
            }
        }

        @Override
        public int prepare(Xid xid) throws XAException {
            at("before prepare");
            int vote = inner.prepare(xid);
            at("after prepare");
            return vote;
        }

        @Override
        public void commit(Xid xid, boolean onePhase) throws XAException {
            at("before commit");
            inner.commit(xid, onePhase);
            at("after commit");
        }

        @Override
        public void rollback(Xid xid) throws XAException {
            inner.rollback(xid);
        }

        @Override
        public void start(Xid xid, int flags) throws XAException {
            inner.start(xid, flags);
        }

        @Override
        public void end(Xid xid, int flags) throws XAException {
            inner.end(xid, flags);
        }

        @Override
        public Xid[] recover(int flags) throws XAException {
            return inner.recover(flags);
        }

        @Override
        public void forget(Xid xid) throws XAException {
            inner.forget(xid);
        }

        @Override
        public boolean isSameRM(XAResource other) {
            return other == this;
        }

        @Override
        public int getTransactionTimeout() throws XAException {
            return inner.getTransactionTimeout();
        }

        @Override
        public boolean setTransactionTimeout(int seconds) throws XAException {
            return inner.setTransactionTimeout(seconds);
        }
    }

    public static void main(String[] words) throws Exception {
        Orders orders = new Orders(words[0], words[1], words[2]);
        try (java.sql.Connection rows = orders.database.getConnection();
                Statement statement = rows.createStatement()) {
            statement.executeUpdate("create table if not exists receipt (id varchar primary key)");
        }
        String what = words.length > 3 ? words[3] : "";
        try {
            if (what.equals("recover")) {
                orders.recovered();
            } else {
                System.out.println("taken " + orders.take(what));
            }
            System.out.println("rows " + orders.rows());
            orders.manager.close();
            orders.connection.close();
            System.exit(0);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1); // the transaction manager's threads would go on
        }
    }
}
