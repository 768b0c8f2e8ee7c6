import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Date;
import java.util.Map;
import java.util.concurrent.TimeoutException;

/** A publisher of notifications with com.rabbitmq:amqp-client, to one queue. */
public final class Publish implements AutoCloseable {
    /** What `redrive queue-name --execution ID --url URL --json` prints. */
    public record Target(String queue, String exchange, String wakeKey, String url, Map<String, Object> arguments) {}

    private static final long UNBOUND_MS_MAX = 10_000;
    private static final long PAUSE_MS = 100;
    private static final long CONFIRM_MS_MAX = 30_000;

    private final Connection connection;
    private Channel channel;
    private final Target target;
    private volatile String returned = "";
    /** The id that is not confirmed: another one would come before it. */
    private String unsettled;

    public Publish(Connection connection, Target target) throws IOException {
        this.connection = connection;
        this.target = target;
        open();
    }

    private void open() throws IOException {
        channel = connection.createChannel();
        channel.confirmSelect();
        channel.addReturnListener(message -> returned = message.getProperties().getMessageId());
    }

    /** Returns after the broker's confirm. Otherwise publish again with the same id: it may have arrived. */
    public synchronized void publish(String execution, String id, String contentType, byte[] body)
            throws IOException, InterruptedException, TimeoutException {
        if (unsettled != null && !unsettled.equals(id)) {
            throw new IOException(id + " is not published: " + unsettled + " is not confirmed, publish that again first");
        }
        unsettled = id;
        // A confirm that does not come, or is a refusal, closes the channel.
        if (!channel.isOpen()) {
            open();
        }
        var properties = new AMQP.BasicProperties.Builder()
                .messageId(id)
                .type("notification")
                .contentType(contentType)
                .timestamp(new Date())
                .deliveryMode(2)
                .headers(Map.of("x-redrive-url", target.url(), "x-redrive-execution", execution))
                .build();
        long giveUp = System.nanoTime() + UNBOUND_MS_MAX * 1_000_000;
        while (!confirmed(id, properties, body)) {
            if (!exists()) {
                channel.queueDeclare(target.queue(), true, false, false, target.arguments());
                channel.queueBind(target.queue(), target.exchange(), target.queue());
                continue;
            }
            if (System.nanoTime() >= giveUp) {
                throw new IOException(id + " is not confirmed: the queue exists and takes no messages");
            }
            byte[] name = target.queue().getBytes(StandardCharsets.UTF_8);
            channel.basicPublish(target.exchange(), target.wakeKey(), null, name);
            Thread.sleep(PAUSE_MS);
        }
        unsettled = null;
    }

    /** Whether a queue has it; false: it was returned, which comes before the confirm. */
    private boolean confirmed(String id, AMQP.BasicProperties properties, byte[] body)
            throws IOException, InterruptedException, TimeoutException {
        returned = "";
        channel.basicPublish(target.exchange(), target.queue(), true, properties, body);
        channel.waitForConfirmsOrDie(CONFIRM_MS_MAX);
        return !returned.equals(id);
    }

    /** On a channel of its own: a refusal closes it. */
    private boolean exists() throws IOException, TimeoutException {
        Channel spare = connection.createChannel();
        try {
            spare.queueDeclarePassive(target.queue());
        } catch (IOException refused) {
            if (refused.getCause() instanceof ShutdownSignalException closed
                    && closed.getReason() instanceof AMQP.Channel.Close reason
                    && reason.getReplyCode() == AMQP.NOT_FOUND) {
                return false;
            }
            throw refused;
        }
        spare.close();
        return true;
    }

    @Override
    public void close() throws IOException, TimeoutException {
        channel.close();
    }
}
