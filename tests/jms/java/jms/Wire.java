package jms;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;

/** A wire to a gateway that can be cut: both ends lose their connection, nobody says goodbye. */
final class Wire implements AutoCloseable {
    private final ServerSocket server;
    private final List<Socket> ends = new ArrayList<>();

    Wire(Gateway gateway) throws IOException {
        server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        Thread thread = new Thread(() -> accept(gateway));
        thread.setDaemon(true);
        thread.start();
    }

    String uri(String options) {
        return "amqp://127.0.0.1:" + server.getLocalPort() + "?" + options;
    }

    private void accept(Gateway gateway) {
        try {
            while (true) {
                Socket client = server.accept();
                Socket there = new Socket(InetAddress.getLoopbackAddress(), gateway.port);
                synchronized (ends) {
                    ends.add(client);
                    ends.add(there);
                }
                pump(client, there);
                pump(there, client);
            }
        } catch (IOException closed) {
            // The test is over.
        }
    }

    private static void pump(Socket from, Socket to) {
        Thread thread = new Thread(() -> {
            try {
                InputStream in = from.getInputStream();
                OutputStream out = to.getOutputStream();
                in.transferTo(out);
            } catch (IOException cut) {
                // What was on its way is lost, as with a real wire.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    /** Every connection through this wire breaks, with a reset. */
    void cut() throws IOException {
        synchronized (ends) {
            for (Socket end : ends) {
                end.setSoLinger(true, 0);
                end.close();
            }
            ends.clear();
        }
    }

    @Override
    public void close() throws IOException {
        cut();
        server.close();
    }
}
