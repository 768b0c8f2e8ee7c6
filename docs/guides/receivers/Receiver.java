// A receiver of notifications, with nothing but the JDK (17 or later): java Receiver.java PORT SECRET
//
// It answers 401 to what is not signed with the secret, 409 to a sender that woke up late, and 204 to everything else.
// What came already is answered and not handled again.
import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public final class Receiver {
    private static final long TOLERANCE_SECONDS = 300;
    private static final int BODY_BYTES_MAX = 24 * 1024 * 1024;

    // In a service these are tables, changed in the transaction that handles the notification.
    private final Set<String> seenIds = new HashSet<>();
    private final Map<String, Long> newestEpochs = new HashMap<>();
    private final byte[] key;

    private Receiver(byte[] key) {
        this.key = key;
    }

    private void handle(byte[] body) {
        System.out.println(new String(body, StandardCharsets.UTF_8));
    }

    private static String text(Headers headers, String name) {
        String value = headers.getFirst(name);
        return value == null ? "" : value;
    }

    /** Standard Webhooks: one of the signatures is right, and the request is not an old one. */
    private boolean isSigned(Headers headers, byte[] body) throws GeneralSecurityException {
        String timestamp = text(headers, "webhook-timestamp");
        if (!timestamp.matches("\\d{1,12}")
                || Math.abs(Instant.now().getEpochSecond() - Long.parseLong(timestamp)) > TOLERANCE_SECONDS) {
            return false;
        }
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        mac.update((text(headers, "webhook-id") + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8));
        String right = "v1," + Base64.getEncoder().encodeToString(mac.doFinal(body));
        for (String one : text(headers, "webhook-signature").split(" ")) {
            if (MessageDigest.isEqual(one.getBytes(StandardCharsets.UTF_8), right.getBytes(StandardCharsets.UTF_8))) {
                return true;
            }
        }
        return false;
    }

    private synchronized int receive(Headers headers, byte[] body) {
        String queue = text(headers, "redrive-queue");
        String epoch = text(headers, "redrive-epoch");
        if (!queue.isEmpty() && epoch.matches("\\d{1,18}")) {
            long number = Long.parseLong(epoch);
            if (number < newestEpochs.getOrDefault(queue, 0L)) {
                return 409;
            }
            newestEpochs.put(queue, number);
        }
        String id = text(headers, "webhook-id");
        if (!seenIds.contains(id)) {
            handle(body);
            seenIds.add(id);
        }
        return 204;
    }

    private void answer(HttpExchange exchange) throws IOException {
        try (exchange) {
            byte[] body = exchange.getRequestBody().readNBytes(BODY_BYTES_MAX + 1);
            int status;
            if (!exchange.getRequestMethod().equals("POST")) {
                status = 405;
            } else if (body.length > BODY_BYTES_MAX) {
                status = 413;
            } else {
                status = isSigned(exchange.getRequestHeaders(), body)
                        ? receive(exchange.getRequestHeaders(), body)
                        : 401;
            }
            exchange.sendResponseHeaders(status, -1);
        } catch (GeneralSecurityException error) {
            throw new IOException(error);
        }
    }

    public static void main(String[] arguments) throws IOException {
        int port = Integer.parseInt(arguments[0]);
        String secret = arguments[1].replaceFirst("^whsec_", "");
        Receiver receiver = new Receiver(Base64.getDecoder().decode(secret));
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 0);
        server.createContext("/", receiver::answer);
        server.start();
        System.err.println("listening on http://127.0.0.1:" + port);
    }
}
