import jakarta.jms.Connection;
import jakarta.jms.Session;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * One branch by the resource of the example, without a transaction manager: {@code java Branch URL
 * QUEUE} prepares one in which nothing is done, then one with work, and says how each is prepared;
 * then it asks for its commit at each line that comes. All that it says is numbers of the resource.
 */
public final class Branch {
    private record One(int getFormatId, byte[] global, byte[] branch) implements Xid {
        @Override
        public byte[] getGlobalTransactionId() {
            return global.clone();
        }

        @Override
        public byte[] getBranchQualifier() {
            return branch.clone();
        }
    }

    private static int answer(XAResource engine, Xid xid) {
        try {
            engine.commit(xid, false);
            return XAResource.XA_OK;
        } catch (XAException error) {
            return error.errorCode;
        }
    }

    public static void main(String[] words) throws Exception {
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        try (Connection connection = new JmsConnectionFactory(words[0]).createConnection()) {
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            XAResource engine = new JmsXaResource(connection, session);
            Xid empty = new One(7, new byte[] {1}, new byte[] {1});
            engine.start(empty, XAResource.TMNOFLAGS);
            engine.end(empty, XAResource.TMSUCCESS);
            System.out.println(engine.prepare(empty));
            Xid xid = new One(7, new byte[] {1}, new byte[] {2});
            engine.start(xid, XAResource.TMNOFLAGS);
            session.createProducer(session.createQueue(words[1])).send(session.createTextMessage("one"));
            engine.end(xid, XAResource.TMSUCCESS);
            System.out.println(engine.prepare(xid));
            while (asked.readLine() != null) {
                System.out.println(answer(engine, xid));
            }
        }
    }
}
