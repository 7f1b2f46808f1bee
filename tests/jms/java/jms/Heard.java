package jms;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.CompletionListener;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageListener;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** What a listener was told, in order: the texts of messages, or what went wrong. */
final class Heard implements MessageListener, CompletionListener {
    private final BlockingQueue<String> texts = new LinkedBlockingQueue<>();

    @Override
    public void onMessage(Message message) {
        try {
            texts.add(message.getBody(String.class));
        } catch (JMSException error) {
            texts.add(error.toString());
        }
    }

    @Override
    public void onCompletion(Message message) {
        onMessage(message);
    }

    @Override
    public void onException(Message message, Exception exception) {
        texts.add(exception.toString());
    }

    /** The next text, waited for with patience. */
    String next() throws InterruptedException {
        String text = texts.poll(Client.PATIENCE, TimeUnit.MILLISECONDS);
        assertNotNull(text, "nothing was heard");
        return text;
    }

    /** So many texts, in the order in which they came. */
    List<String> next(int count) throws InterruptedException {
        List<String> all = new ArrayList<>();
        while (all.size() < count) {
            all.add(next());
        }
        return all;
    }

    void expect(String... expected) throws InterruptedException {
        assertEquals(List.of(expected), next(expected.length));
    }

    /** The numbers from zero on, as texts, in their order. */
    void expectNumbers(int count) throws InterruptedException {
        for (int i = 0; i < count; i++) {
            assertEquals(Integer.toString(i), next());
        }
    }

    /** Until all of these were heard, in any order, some perhaps twice; they are taken out. */
    void expectAtLeast(Set<String> missing) throws InterruptedException {
        while (!missing.isEmpty()) {
            String text = texts.poll(Client.PATIENCE, TimeUnit.MILLISECONDS);
            assertTrue(text != null, () -> "never came: " + missing);
            missing.remove(text);
        }
    }

    void expectNothing() throws InterruptedException {
        assertNull(texts.poll(Client.SILENCE, TimeUnit.MILLISECONDS));
    }
}
