import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.List;
import java.util.stream.Collectors;
import org.redisson.RedissonMultiLock;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** One lock as its holder sees it, for bench/lease-profiles.ts. Every answer is one line, from the thread that locked. */
final class Lease {
  private static final long WAIT_MS = 3_000;

  private final List<RedissonClient> nodes;
  private final boolean majority;
  private List<RLock> each = List.of();
  private RLock lock;

  /** @param majority RedLock, which is deprecated, instead of the multi-lock */
  Lease(List<RedissonClient> nodes, boolean majority) {
    this.nodes = nodes;
    this.majority = majority;
  }

  /** @return null where the line is none of its commands */
  String answer(String line) {
    String[] words = line.split(" ");
    try {
      switch (words[0]) {
        case "ready":
          return "ready";
        case "acquire":
          open(words[1]);
          return lock.tryLock(WAIT_MS, Long.parseLong(words[2]), MILLISECONDS) ? "held" : "refused: false";
        case "extend":
          return "no call; tryLock by the same thread: "
              + lock.tryLock(WAIT_MS, Long.parseLong(words[1]), MILLISECONDS) + ", hold counts " + holdCounts();
        case "release":
        case "done":
          lock.unlock();
          return "released";
        case "token":
          return "no call";
        case "believes":
          return "asks the nodes: held on " + each.stream().filter(RLock::isHeldByCurrentThread).count() + " of "
              + each.size();
        case "late":
          return "no call";
        case "read":
          open(words[1]);
          return attempt(() -> "isLocked() is " + lock.isLocked()) + "; each node by itself: locked on "
              + each.stream().filter(RLock::isLocked).count() + " of " + each.size();
        case "fenced":
          var fenced = nodes.get(0).getFencedLock(words[1]);
          String token = String.valueOf(fenced.tryLockAndGetToken(WAIT_MS, Long.parseLong(words[2]), MILLISECONDS));
          fenced.unlock();
          return token;
        default:
          return null;
      }
    } catch (InterruptedException interrupted) {
      throw new IllegalStateException(interrupted);
    } catch (RuntimeException failed) {
      return "refused: " + failed.getClass().getSimpleName();
    }
  }

  private void open(String key) {
    each = nodes.stream().map(node -> node.getLock(key)).toList();
    RLock[] locks = each.toArray(RLock[]::new);
    lock = majority ? new RedissonRedLock(locks) : new RedissonMultiLock(locks);
  }

  private String holdCounts() {
    return each.stream().map(one -> String.valueOf(one.getHoldCount())).collect(Collectors.joining(" "));
  }

  private static String attempt(java.util.function.Supplier<String> call) {
    try {
      return call.get();
    } catch (RuntimeException failed) {
      return "isLocked() throws " + failed.getClass().getSimpleName();
    }
  }
}
