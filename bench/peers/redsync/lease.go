package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
)

// One lock as its holder sees it, for bench/lease-profiles.ts. Every answer is one line.
type lease struct {
	locks *redsync.Redsync
	mutex *redsync.Mutex
}

// Returns false where the line is none of its commands.
func (l *lease) answer(line string) (string, bool) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return "", false
	}
	switch words[0] {
	case "ready":
		return "ready", true
	case "acquire":
		var leaseMs int
		if _, err := fmt.Sscan(words[2], &leaseMs); err != nil {
			panic(err)
		}
		expiry := redsync.WithExpiry(time.Duration(leaseMs) * time.Millisecond)
		l.mutex = l.locks.NewMutex(words[1], expiry)
		if err := l.mutex.TryLock(); err != nil {
			return "refused: " + why(err), true
		}
		return "held", true
	case "token":
		return fmt.Sprintf("none: Value() is random text of %d characters", len(l.mutex.Value())), true
	case "believes":
		if time.Now().Before(l.mutex.Until()) {
			return "held, by Until()", true
		}
		return "over, where it looks at Until()", true
	case "extend":
		if ok, err := l.mutex.Extend(); !ok {
			return "refused: " + why(err), true
		}
		return "extended", true
	case "release", "done":
		if ok, err := l.mutex.Unlock(); !ok {
			return "refused: " + why(err), true
		}
		return "released", true
	case "late":
		return "no call", true
	case "read":
		return "no call", true
	}
	return "", false
}

func why(err error) string {
	if taken := (*redsync.ErrTaken)(nil); errors.As(err, &taken) {
		return fmt.Sprintf("ErrTaken on %d nodes", len(taken.Nodes))
	}
	if errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return "ErrLockAlreadyExpired"
	}
	if errors.Is(err, redsync.ErrExtendFailed) {
		return "ErrExtendFailed"
	}
	if errors.Is(err, redsync.ErrFailed) {
		return "ErrFailed"
	}
	if one := (*redsync.RedisError)(nil); errors.As(err, &one) {
		return "RedisError"
	}
	if one := (*redsync.ErrNodeTaken)(nil); errors.As(err, &one) {
		return "ErrNodeTaken"
	}
	return strings.ReplaceAll(fmt.Sprint(err), "\n", " ")
}
