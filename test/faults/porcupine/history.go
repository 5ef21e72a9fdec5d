package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"

	"github.com/anishathalye/porcupine"
)

// One line of history.jsonl (test/faults/history.ts): a call, an execution of the application, or a fault, which is left out.
type line struct {
	F          string   `json:"f"`
	Op         int      `json:"op"`
	Key        string   `json:"key"`
	Tenant     string   `json:"tenant"`
	Content    string   `json:"content"`
	Session    string   `json:"session"`
	Token      int64    `json:"token"`
	Attempt    int      `json:"attempt"`
	Result     string   `json:"result"`
	StartMs    float64  `json:"startMs"`
	EndMs      *float64 `json:"endMs"`
	Type       string   `json:"type"`
	Status     int      `json:"status"`
	Code       string   `json:"code"`
	Says       string   `json:"says"`
	Body       string   `json:"body"`
	Answer     string   `json:"answer"`
	ExpiresMs  float64  `json:"expiresInMs"`
	LeaseMs    float64  `json:"leaseMs"`
	State      string   `json:"state"`
	ShownToken int64    `json:"shownToken"`
	Outcome    string   `json:"outcome"`
	Of         string   `json:"of"`
	Was        string   `json:"was"`
	Effect     string   `json:"effect"`
	Said       string   `json:"said"`
}

// The end of an operation without an answer: it may take effect at any later time.
const never = math.MaxInt64 / 2

func readHistory(path string) ([]line, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []line
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 16*1024*1024)
	for at := 1; scanner.Scan(); at++ {
		var one line
		if err := json.Unmarshal(scanner.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, at, err)
		}
		switch one.F {
		case "submit", "reserve", "extend", "release", "complete", "standing", "standing-of", "execution",
			"operator-end", "operator-complete", "operator-forget", "operator-ask", "operator-requeue", "operator-discard":
			lines = append(lines, one)
		case "fault":
		default:
			return nil, fmt.Errorf("%s:%d: an operation %q is not known", path, at, one.F)
		}
	}
	return lines, scanner.Err()
}

func nanos(ms float64) int64 { return int64(ms * 1e6) }

func (l line) call() int64 { return nanos(l.StartMs) }

func (l line) end() int64 {
	if l.EndMs == nil {
		return never
	}
	return nanos(*l.EndMs)
}

func (l line) answered() bool { return l.Type != "info" && l.EndMs != nil }

// It is unknown whether it took effect.
func (l line) unknown() bool { return !l.answered() || l.Status >= 500 }

// The operations of one key, as Porcupine wants them: each in a free lane of the drawing.
func inLanes(operations []porcupine.Operation) []porcupine.Operation {
	sort.SliceStable(operations, func(a, b int) bool { return operations[a].Call < operations[b].Call })
	var busyUntil []int64
	for at := range operations {
		lane := 0
		for lane < len(busyUntil) && busyUntil[lane] >= operations[at].Call {
			lane++
		}
		if lane == len(busyUntil) {
			busyUntil = append(busyUntil, 0)
		}
		busyUntil[lane] = operations[at].Return
		operations[at].ClientId = lane
	}
	return operations
}

func grouped(lines []line, keyOf func(line) (string, bool)) ([]string, map[string][]line) {
	groups := map[string][]line{}
	var keys []string
	for _, one := range lines {
		key, belongs := keyOf(one)
		if !belongs {
			continue
		}
		if _, known := groups[key]; !known {
			keys = append(keys, key)
		}
		groups[key] = append(groups[key], one)
	}
	return keys, groups
}
