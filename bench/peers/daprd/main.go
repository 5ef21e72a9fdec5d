// Dapr's sidecar with one component, the lock over one Redis, which its own builds have only among all components.
//
//	go mod init daprd && go get github.com/dapr/dapr/cmd/daprd@v1.14.0 && go build -tags stablecomponents -o daprd .
package main

import (
	"github.com/dapr/components-contrib/lock/redis"
	"github.com/dapr/dapr/cmd/daprd/app"
	"github.com/dapr/dapr/pkg/components/lock"
)

func main() {
	lock.DefaultRegistry.RegisterComponent(redis.NewStandaloneRedisLock, "redis")
	app.Run()
}
