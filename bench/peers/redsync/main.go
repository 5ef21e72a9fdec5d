// Acquires and releases locks over the given nodes, in a closed loop, on every line of its input:
//
//	operations concurrency  →  how long each took, in milliseconds, as a JSON array
//
// Other lines are commands about one lock (lease.go).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	adapter "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

func main() {
	// Nodes that are down are part of what is shown.
	logging.Disable()
	var pools []redis.Pool
	for _, url := range strings.Split(os.Args[1], ",") {
		options, err := goredis.ParseURL(url)
		if err != nil {
			panic(err)
		}
		options.PoolSize = 64
		pools = append(pools, adapter.NewPool(goredis.NewClient(options)))
	}
	locks := redsync.New(pools...)
	var serial atomic.Int64
	input := bufio.NewScanner(os.Stdin)
	one := &lease{locks: locks}
	for input.Scan() {
		if answer, ok := one.answer(input.Text()); ok {
			fmt.Println(answer)
			continue
		}
		var operations, concurrency int
		if _, err := fmt.Sscan(input.Text(), &operations, &concurrency); err != nil {
			panic(err)
		}
		durations := make([]float64, operations)
		var next atomic.Int64
		var group sync.WaitGroup
		for worker := 0; worker < concurrency; worker++ {
			group.Add(1)
			go func() {
				defer group.Done()
				for {
					index := int(next.Add(1)) - 1
					if index >= operations {
						return
					}
					begun := time.Now()
					mutex := locks.NewMutex(fmt.Sprintf("redsync:%d", serial.Add(1)), redsync.WithExpiry(30*time.Second))
					if err := mutex.LockContext(context.Background()); err != nil {
						panic(err)
					}
					if _, err := mutex.UnlockContext(context.Background()); err != nil {
						panic(err)
					}
					durations[index] = float64(time.Since(begun).Microseconds()) / 1000
				}
			}()
		}
		group.Wait()
		if err := json.NewEncoder(os.Stdout).Encode(durations); err != nil {
			panic(err)
		}
	}
}
