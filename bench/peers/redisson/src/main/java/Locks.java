import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.StringJoiner;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.Redisson;
import org.redisson.RedissonMultiLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Acquires and releases multi-locks over the given nodes, in a closed loop, on every line of its input:
 * {@code operations concurrency} gives how long each took, in milliseconds, as a JSON array. Other lines are commands about one
 * lock ({@link Lease}): a multi-lock, or with {@code redlock} as second argument a RedLock. With a second argument a node that
 * is silent costs two seconds.
 */
public final class Locks {
  public static void main(String[] args) throws Exception {
    List<RedissonClient> nodes = new ArrayList<>();
    for (String url : args[0].split(",")) {
      Config config = new Config();
      var server = config.useSingleServer().setAddress(url).setConnectionPoolSize(64).setConnectionMinimumIdleSize(16);
      if (args.length > 1) server.setTimeout(2_000).setRetryAttempts(0);
      nodes.add(Redisson.create(config));
    }
    AtomicLong serial = new AtomicLong();
    Lease lease = new Lease(nodes, args.length > 1 && args[1].equals("redlock"));
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      String answer = lease.answer(line);
      if (answer != null) {
        System.out.println(answer);
        continue;
      }
      String[] words = line.split(" ");
      System.out.println(round(nodes, serial, Integer.parseInt(words[0]), Integer.parseInt(words[1])));
    }
    nodes.forEach(RedissonClient::shutdown);
  }

  private static String round(List<RedissonClient> nodes, AtomicLong serial, int operations, int concurrency)
      throws Exception {
    double[] ms = new double[operations];
    AtomicInteger next = new AtomicInteger();
    List<Thread> workers = new ArrayList<>();
    for (int i = 0; i < concurrency; i++) {
      Thread worker = new Thread(() -> {
        for (int index = next.getAndIncrement(); index < operations; index = next.getAndIncrement()) {
          long begun = System.nanoTime();
          String name = "redisson:" + serial.incrementAndGet();
          RLock lock = new RedissonMultiLock(nodes.stream().map(node -> node.getLock(name)).toArray(RLock[]::new));
          try {
            if (!lock.tryLock(10_000, 30_000, java.util.concurrent.TimeUnit.MILLISECONDS))
              throw new IllegalStateException("not acquired");
            lock.unlock();
          } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
          }
          ms[index] = (System.nanoTime() - begun) / 1e6;
        }
      });
      workers.add(worker);
      worker.start();
    }
    for (Thread worker : workers) worker.join();
    StringJoiner all = new StringJoiner(",", "[", "]");
    for (double one : ms) all.add(String.valueOf(one));
    return all.toString();
  }
}
