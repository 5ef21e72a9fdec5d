import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Sends a payment through the proxy, and again until there is an answer. The key makes that safe, and nothing else is needed.
 *
 * <pre>FENCEPOST_PROXY=http://127.0.0.1:8080 java Send.java order-4711</pre>
 */
public class Send {
  /** 409: the first copy is still running. 503: not known now. Both say when to come back. */
  private static final Set<Integer> AGAIN = Set.of(409, 429, 502, 503, 504);

  private static final HttpClient CLIENT =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(2)).build();

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

  public static void main(String[] args) throws InterruptedException {
    String proxy = System.getenv().getOrDefault("FENCEPOST_PROXY", "http://127.0.0.1:8080");
    String order = args.length > 0 ? args[0] : "order-4711";
    HttpRequest request = HttpRequest.newBuilder(URI.create(proxy + "/payments"))
        .header("Content-Type", "application/x-www-form-urlencoded")
        .header("Idempotency-Key", "payment-" + order)
        .POST(HttpRequest.BodyPublishers.ofString("order=" + order + "&amount=1200"))
        .build();
    for (int tried = 0; tried < 5; tried++) {
      long delaySeconds = Math.min(1L << tried, 30);
      try {
        HttpResponse<String> response = answerTo(request, Duration.ofSeconds(10));
        if (response.statusCode() < 400) {
          System.out.println(response.headers().firstValue("Idempotency-Status").orElse("") + " " + response.body());
          return;
        }
        if (!AGAIN.contains(response.statusCode())) {
          System.err.println("refused with " + response.statusCode() + ": " + response.body());
          System.exit(1);
        }
        // It may also be a date, from the application or a gateway: then this program's own delay counts.
        String after = response.headers().firstValue("Retry-After").orElse("");
        if (after.matches("\\d{1,9}")) delaySeconds = Long.parseLong(after);
      } catch (IOException broken) {
        // The connection broke, perhaps after the payment: the same key gets the answer of the first copy.
      }
      Thread.sleep(Duration.ofSeconds(delaySeconds).toMillis());
    }
    System.err.println("no answer after 5 tries");
    System.exit(1);
  }
}
