import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Takes a payment once, with the JDK alone (17 or newer): reserve, renew, write with the fencing token, complete.
 *
 * <pre>FENCEPOST_URL=http://127.0.0.1:8081 java Reserve.java order-4711</pre>
 *
 * The JDK reads no JSON. The members used here are strings without escapes and numbers, which {@link #member} finds; a service
 * takes its own JSON library.
 */
public class Reserve {
  private static final String API = System.getenv().getOrDefault("FENCEPOST_URL", "http://127.0.0.1:8081");
  private static final HttpClient CLIENT =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(2)).build();

  static HttpResponse<String> call(String path, String body, Duration limit) throws IOException, InterruptedException {
    HttpRequest request = HttpRequest.newBuilder(URI.create(API + path))
        .header("content-type", "application/json")
        .POST(HttpRequest.BodyPublishers.ofString(body))
        .build();
    return answerTo(request, limit);
  }

  /** {@code HttpRequest.timeout} ends with the head of the answer: this limit is for the whole of it. */
  static HttpResponse<String> answerTo(HttpRequest request, Duration limit) throws IOException, InterruptedException {
    CompletableFuture<HttpResponse<String>> answer = CLIENT.sendAsync(request, HttpResponse.BodyHandlers.ofString());
    try {
      return answer.get(limit.toNanos(), TimeUnit.NANOSECONDS);
    } catch (TimeoutException late) {
      throw new HttpTimeoutException("no whole answer within " + limit);
    } catch (ExecutionException broken) {
      throw new IOException(broken.getCause());
    } finally {
      answer.cancel(true);
    }
  }

  static String member(String json, String name) {
    Matcher found = Pattern.compile("\"" + name + "\":(?:\"([^\"]*)\"|(-?\\d+))").matcher(json);
    if (!found.find()) throw new IllegalStateException("no member " + name + " in " + json);
    return found.group(1) != null ? found.group(1) : found.group(2);
  }

  /** Extends the lease every third of it. {@code lost} holds before it is over: then stop working. */
  static final class Heartbeat implements AutoCloseable {
    private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(task -> {
      Thread thread = new Thread(task, "heartbeat");
      thread.setDaemon(true);
      return thread;
    });
    private final String path;
    private final String token;
    private final long leaseNanos;
    private volatile long goodUntil;
    private volatile boolean refused;
    final CountDownLatch extended = new CountDownLatch(1);

    Heartbeat(String path, String token, long leaseMs, long sentAt) {
      this.path = path;
      this.token = token;
      this.leaseNanos = TimeUnit.MILLISECONDS.toNanos(leaseMs);
      this.goodUntil = sentAt + leaseNanos / 100 * 95;
      timer.scheduleWithFixedDelay(this::extend, leaseNanos / 3, leaseNanos / 3, TimeUnit.NANOSECONDS);
    }

    private void extend() {
      long sentAt = System.nanoTime();
      if (lost()) {
        timer.shutdown();
        return;
      }
      try {
        HttpResponse<String> answer = call(path + "/extend", token, Duration.ofNanos(goodUntil - sentAt));
        if (answer.statusCode() == 200) {
          goodUntil = sentAt + leaseNanos / 100 * 95;
          extended.countDown();
        } else if (answer.statusCode() == 410) refused = true;
      } catch (IOException silent) {
        // The sidecar did not answer: while time is left, another try.
      } catch (InterruptedException closed) {
        Thread.currentThread().interrupt();
      }
    }

    boolean lost() {
      return refused || System.nanoTime() - goodUntil >= 0;
    }

    @Override
    public void close() {
      timer.shutdownNow();
    }
  }

  static String payOnce(Path ledger, String order, int amount) throws IOException, InterruptedException {
    // One session for all tries: after an answer that was lost, the same call gets the same reservation.
    String intent = "{\"session_id\":\"" + UUID.randomUUID() + "\",\"reserved_value\":\"payment:" + order
        + "\",\"lease\":\"3s\",\"wait\":\"5s\"}";
    long sentAt = System.nanoTime();
    HttpResponse<String> held = call("/v1/reservations", intent, Duration.ofSeconds(15));
    if (held.statusCode() == 409 && member(held.body(), "reservation_status").equals("DUPLICATE"))
      return "replayed " + member(held.body(), "result");
    if (held.statusCode() != 201) throw new IOException(held.statusCode() + " " + held.body());

    String path = "/v1/reservations/" + member(held.body(), "reservation_id");
    String fencingToken = member(held.body(), "fencing_token");
    String token = "\"fencing_token\":" + fencingToken;
    long leaseMs = Long.parseLong(member(held.body(), "expires_in_ms"));
    try (Heartbeat heartbeat = new Heartbeat(path, "{" + token + "}", leaseMs, sentAt)) {
      // ... the work: here it outlasts a third of its lease, so that a heartbeat is seen ...
      heartbeat.extended.await(10, TimeUnit.SECONDS);
      if (heartbeat.lost()) throw new IOException("the lease was lost: another worker may have begun");
      write(ledger, order, amount, Long.parseLong(fencingToken));
      String receipt = order + ":" + amount;
      HttpResponse<String> ended =
          call(path + "/complete", "{" + token + ",\"result\":\"" + receipt + "\"}", Duration.ofSeconds(15));
      // 410: another outcome stands. 503: not known; reserve again tells.
      if (ended.statusCode() != 200) throw new IOException(ended.statusCode() + " " + ended.body());
      return "created " + receipt;
    }
  }

  /**
   * Refuses a token that is smaller than that of the row. In a database this is one statement: {@code INSERT ... ON CONFLICT (order_id)
   * DO UPDATE ... WHERE payment.fencing_token <= excluded.fencing_token}. A file has no such, and serves one process at a time.
   */
  static void write(Path ledger, String order, int amount, long token) throws IOException {
    if (Files.exists(ledger))
      for (String line : Files.readAllLines(ledger)) {
        String[] fields = line.split(" ");
        if (!fields[0].equals(order)) continue;
        if (Long.parseLong(fields[2]) > token) throw new IOException("fenced: a later worker wrote this payment");
        return; // an earlier attempt paid, and could not say so: complete with what is there
      }
    Files.writeString(ledger, order + " " + amount + " " + token + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
  }

  public static void main(String[] args) throws IOException, InterruptedException {
    Path ledger = Path.of(System.getenv().getOrDefault("LEDGER", "payments.txt"));
    System.out.println(payOnce(ledger, args.length > 0 ? args[0] : "order-4711", 1200));
  }
}
