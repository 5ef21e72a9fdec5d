import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Set;

/**
 * Sends a payment through the proxy, and again until there is an answer. The key makes that safe, and nothing else is needed.
 *
 * <pre>FENCEPOST_PROXY=http://127.0.0.1:8080 java Send.java order-4711</pre>
 */
public class Send {
  /** 409: the first copy is still running. 503: not known now. Both say when to come back. */
  private static final Set<Integer> AGAIN = Set.of(409, 429, 502, 503, 504);

  public static void main(String[] args) throws InterruptedException {
    String proxy = System.getenv().getOrDefault("FENCEPOST_PROXY", "http://127.0.0.1:8080");
    String order = args.length > 0 ? args[0] : "order-4711";
    HttpClient client =
        HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(2)).build();
    HttpRequest request = HttpRequest.newBuilder(URI.create(proxy + "/payments"))
        .timeout(Duration.ofSeconds(10))
        .header("Content-Type", "application/x-www-form-urlencoded")
        .header("Idempotency-Key", "payment-" + order)
        .POST(HttpRequest.BodyPublishers.ofString("order=" + order + "&amount=1200"))
        .build();
    for (int tried = 0; tried < 5; tried++) {
      long delaySeconds = Math.min(1L << tried, 30);
      try {
        HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() < 400) {
          System.out.println(response.headers().firstValue("Idempotency-Status").orElse("") + " " + response.body());
          return;
        }
        if (!AGAIN.contains(response.statusCode())) {
          System.err.println("refused with " + response.statusCode() + ": " + response.body());
          System.exit(1);
        }
        delaySeconds = response.headers().firstValueAsLong("Retry-After").orElse(delaySeconds);
      } catch (IOException broken) {
        // The connection broke, perhaps after the payment: the same key gets the answer of the first copy.
      }
      Thread.sleep(Duration.ofSeconds(delaySeconds).toMillis());
    }
    System.err.println("no answer after 5 tries");
    System.exit(1);
  }
}
