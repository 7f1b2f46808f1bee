package jms;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** A gateway process: the one that most tests share, or one of a test's own that may be killed. */
final class Gateway {
    /** Number 0; tests keep apart by topics, subscriptions and client ids of their own. */
    static final Gateway SHARED = new Gateway(0, Integer.getInteger("jms.gateway", 0), null);

    private static final HttpClient CONTROL = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    private final int number;
    final int port;
    /** Where a secured gateway's clients find their files. */
    final String folder;

    private Gateway(int number, int port, String folder) {
        this.number = number;
        this.port = port;
        this.folder = folder;
    }

    /** A gateway with a home of its own, started; `end` it. */
    static Gateway launch() throws Exception {
        return made("");
    }

    /** One with users, permissions and TLS, likewise. */
    static Gateway launchSecured() throws Exception {
        return made("/secured");
    }

    /** One with policies for queues of some names. */
    static Gateway launchRuled() throws Exception {
        return made("/ruled");
    }

    /** One with schemas for topics and queues of some names. */
    static Gateway launchChecked() throws Exception {
        return made("/checked");
    }

    private static Gateway made(String how) throws Exception {
        String[] said = ask(how).split(" ", 3);
        return new Gateway(Integer.parseInt(said[0]), Integer.parseInt(said[1]), said[2]);
    }

    /** SIGKILL. */
    void kill() throws Exception {
        ask("/" + number + "/kill");
    }

    /** SIGTERM, and its orderly end. */
    void stop() throws Exception {
        ask("/" + number + "/stop");
    }

    /** Again, after kill or stop, on the same home and port. */
    void start() throws Exception {
        ask("/" + number + "/start");
    }

    /** The last of it, running or not; an exception when it has said that it has a bug. */
    void end() throws Exception {
        ask("/" + number + "/end");
    }

    /** Killed, and started again on what it left. */
    void crash() throws Exception {
        kill();
        start();
    }

    void restart() throws Exception {
        stop();
        start();
    }

    private static String ask(String what) throws Exception {
        URI uri = URI.create("http://127.0.0.1:" + Integer.getInteger("jms.control") + "/gateways" + what);
        HttpRequest request = HttpRequest.newBuilder(uri).POST(HttpRequest.BodyPublishers.noBody()).build();
        HttpResponse<String> said = CONTROL.send(request, HttpResponse.BodyHandlers.ofString());
        if (said.statusCode() != 200) {
            throw new IllegalStateException("the control server: " + said.body());
        }
        return said.body();
    }
}
