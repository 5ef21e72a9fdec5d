// Checks the history of a fault run with Porcupine, which is independent of fencepost: each key against a model of its
// promises (reservations.go, requests.go). A key that is not decided in its time is reported like a broken one.
//
//	checker [-limit 20s] [-draw FOLDER] history.jsonl
//
// Prints one JSON object. Ends with 0 where every key is linearizable, 1 where one is not or was not decided, 2 where the
// history can't be read.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// The input of the search for one kind and key, in the words of its model.
type partition struct {
	kind       string
	key        string
	model      porcupine.Model
	operations []porcupine.Operation
	// The same up to a moment: an operation that had not ended by then may have taken effect.
	until func(int64) partition
}

// The operations that had begun by a moment, and how many of them must have happened: those that had ended by then.
// `timesOf` returns when an operation began, and pointers to its end and to whether it is optional.
func begunBy[O any](
	moment int64, ops []O, timesOf func(*O) (call int64, end *int64, optional *bool),
) (operations []porcupine.Operation, required int) {
	operations = []porcupine.Operation{}
	for _, op := range ops {
		call, end, optional := timesOf(&op)
		if call > moment {
			continue
		}
		if *end > moment {
			*optional, *end = true, never
		}
		if !*optional {
			required++
		}
		operations = append(operations, porcupine.Operation{Input: op, Call: call, Return: *end})
	}
	return operations, required
}

// Whether any operation must have happened.
func (part partition) required() bool {
	for _, one := range part.operations {
		if one.Return < never {
			return true
		}
	}
	return false
}

type violation struct {
	Kind string `json:"kind"`
	Key  string `json:"key"`
	// Illegal, or Unknown where the time ran out.
	Result string `json:"result"`
	// The first operation at whose end no order is left.
	First      string   `json:"first,omitempty"`
	Operations []string `json:"operations"`
	Drawing    string   `json:"drawing,omitempty"`
}

type report struct {
	Calls      int `json:"calls"`
	Keys       int `json:"keys"`
	Operations int `json:"operations"`
	// Of one key.
	OperationsMost int         `json:"operationsMost"`
	TookMs         int64       `json:"tookMs"`
	Violations     []violation `json:"violations"`
}

// More drawings help no reader.
const drawingsMax = 20

func main() {
	limit := flag.Duration("limit", 20*time.Second, "for the search of one key")
	draw := flag.String("draw", "", "folder for the drawings of what is broken")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "one history is needed")
		os.Exit(2)
	}
	lines, err := readHistory(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	told, err := check(lines, *limit, *draw)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	text, _ := json.Marshal(told)
	fmt.Println(string(text))
	if len(told.Violations) > 0 {
		os.Exit(1)
	}
}

func check(lines []line, limit time.Duration, draw string) (report, error) {
	started := time.Now()
	partitions := append(reservations(lines), requests(lines)...)
	told := report{Calls: len(lines), Keys: len(partitions), Violations: []violation{}}
	for _, part := range partitions {
		told.Operations += len(part.operations)
		told.OperationsMost = max(told.OperationsMost, len(part.operations))
		result := porcupine.CheckOperationsTimeout(part.model, part.operations, limit)
		if result == porcupine.Ok {
			continue
		}
		broken := violation{Kind: part.kind, Key: part.key, Result: string(result), Operations: part.told()}
		if result == porcupine.Illegal {
			broken.First = part.first(limit)
		}
		if draw != "" && len(told.Violations) < drawingsMax {
			path, err := part.drawn(draw, limit)
			if err != nil {
				return told, err
			}
			broken.Drawing = path
		}
		told.Violations = append(told.Violations, broken)
	}
	told.TookMs = time.Since(started).Milliseconds()
	return told, nil
}

// A linearizable history is so up to each moment, so bisection finds the first operation at whose end it is not.
func (part partition) first(limit time.Duration) string {
	sorted := append([]porcupine.Operation{}, part.operations...)
	sort.SliceStable(sorted, func(a, b int) bool { return sorted[a].Return < sorted[b].Return })
	at := sort.Search(len(sorted)-1, func(at int) bool {
		prefix := part.until(sorted[at].Return)
		return porcupine.CheckOperationsTimeout(prefix.model, prefix.operations, limit) == porcupine.Illegal
	})
	return part.model.DescribeOperation(sorted[at].Input, sorted[at].Output)
}

func (part partition) told() []string {
	sorted := append([]porcupine.Operation{}, part.operations...)
	sort.SliceStable(sorted, func(a, b int) bool { return sorted[a].Call < sorted[b].Call })
	said := []string{}
	for _, one := range sorted {
		said = append(said, part.model.DescribeOperation(one.Input, one.Output))
	}
	return said
}

var notInAName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

func (part partition) drawn(folder string, limit time.Duration) (string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(folder, fmt.Sprintf("%s-%s.html", part.kind, notInAName.ReplaceAllString(part.key, "-")))
	_, info := porcupine.CheckOperationsVerbose(part.model, part.operations, limit)
	return path, porcupine.VisualizePath(part.model, info, path)
}
