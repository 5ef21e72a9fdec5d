import dev.failsafe.Failsafe;
import dev.failsafe.RetryPolicy;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Map;
import okhttp3.MediaType;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.RequestBody;
import org.apache.hc.client5.http.classic.methods.HttpPost;
import org.apache.hc.client5.http.impl.DefaultHttpRequestRetryStrategy;
import org.apache.hc.client5.http.impl.classic.HttpClients;
import org.apache.hc.core5.http.ContentType;
import org.apache.hc.core5.http.io.entity.EntityUtils;
import org.apache.hc.core5.http.io.entity.StringEntity;
import org.apache.hc.core5.util.TimeValue;

/** Clients of Java that send again: `Clients CLIENT ORIGIN` prints what the client made of the answer, as JSON. */
final class Clients {
  private static final String ORDER = "{\"item\":7}";

  private interface Client {
    String send(String origin) throws Exception;
  }

  private static final Map<String, Client> CLIENTS =
      Map.of("okhttp", Clients::okhttp, "httpclient5", Clients::httpclient5, "failsafe", Clients::failsafe);

  private Clients() {}

  /** Once more after 503 with `Retry-After: 0`. */
  private static String okhttp(String origin) throws IOException {
    var body = RequestBody.create(ORDER, MediaType.get("application/json"));
    var request = new Request.Builder().url(origin + "/orders").post(body).build();
    var client = new OkHttpClient();
    try (var answer = client.newCall(request).execute()) {
      return said(answer.code(), answer.body().string());
    } finally {
      client.dispatcher().executorService().shutdown();
      client.connectionPool().evictAll();
    }
  }

  /** Its own strategy, which sends a POST again after 429 and 503, with a shorter pause. */
  private static String httpclient5(String origin) throws IOException {
    var again = new DefaultHttpRequestRetryStrategy(2, TimeValue.ofMilliseconds(1));
    try (var client = HttpClients.custom().setRetryStrategy(again).build()) {
      var post = new HttpPost(origin + "/orders");
      post.setEntity(new StringEntity(ORDER, ContentType.APPLICATION_JSON));
      return client.execute(post, answer -> said(answer.getCode(), EntityUtils.toString(answer.getEntity())));
    }
  }

  /** The JDK's own client under a policy: any failure of the connection is a reason to send again. */
  private static String failsafe(String origin) {
    // It would offer h2c, which the application of the tests takes for a tunnel.
    var client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    var request =
        HttpRequest.newBuilder(URI.create(origin + "/orders"))
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(ORDER))
            .build();
    var again =
        RetryPolicy.<HttpResponse<String>>builder()
            .handle(IOException.class)
            .handleResultIf(answer -> answer.statusCode() >= 500)
            .withDelay(Duration.ofMillis(1))
            .withMaxRetries(2)
            .build();
    var answer = Failsafe.with(again).get(() -> client.send(request, HttpResponse.BodyHandlers.ofString()));
    return said(answer.statusCode(), answer.body());
  }

  private static String said(int status, String body) {
    return "{\"status\":" + status + ",\"body\":\"" + body.replace("\"", "\\\"") + "\"}";
  }

  public static void main(String[] args) throws Exception {
    System.out.println(CLIENTS.get(args[0]).send(args[1]));
    System.exit(0);
  }
}
