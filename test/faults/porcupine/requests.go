package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// A request through the proxy: a write-once register with the answer of one of the executions that the application
// logged.
// Tokens of executions grow in the order of their claims. No claim or execution begins once the answer stands, and no
// claim
// is granted while the application is at work under a lease that can't have ended: the lease lasts from its claim,
// which
// was after the request, and is given back at the earliest when the application has ended.
//
// The answers to clients count where they show the register: `created` and `replayed` show the recorded answer, 422
// shows
// that it is of another content. An answer may be recorded from its end on, whatever happened to its client.
//
// An operator ends a claim, and the next one is a further attempt; makes the register empty again; or writes an answer
// by hand (decisions.go).
type answerRegister struct {
	largest int64
	done    bool
	content string
	body    string
	left    int
	// The earliest end of the lease of the last claim, and the latest of those that a later claim relied on.
	until int64
	floor int64
	// The last claim was ended by an operator: the next one is told of it.
	ended bool
	// Claims up to this token were ended by an operator. Their holders may begin without knowing.
	fenced int64
	// An outcome that was perhaps forgotten by some nodes alone.
	mayReturn recordedAnswer
}

type recordedAnswer struct{ content, body string }

// The content of an answer by hand, until a duplicate shows whose it is.
const anyContent = "?"

// What duplicates are shown of an outcome without an answer: 410. Where nobody discarded a dead letter the answer may have
// been too large to be kept, and nothing follows from it.
const notKept = "not kept"

type requestOp struct {
	what      string // claimed, begun, recorded, shown, mismatch; of an operator: ended, forgotten, by-hand
	line      line
	content   string
	body      string
	optional  bool
	possible  bool
	call, end int64
	// Of a claim: the length of its lease, and when the application had ended.
	lease, worked int64
}

func requests(lines []line) []partition {
	keys, groups := grouped(lines, func(l line) (string, bool) {
		return l.Tenant + "/" + l.Key, l.F == "submit" || l.F == "execution" || (l.isDecision() && l.Of == "request")
	})
	var partitions []partition
	for _, key := range keys {
		part := request(key, requestOps(groups[key]), never)
		if part.required() {
			partitions = append(partitions, part)
		}
	}
	return partitions
}

func request(key string, ops []requestOp, until int64) partition {
	operations, required := begunBy(until, ops, func(op *requestOp) (int64, *int64, *bool) {
		return op.call, &op.end, &op.optional
	})
	return partition{
		kind: "request", key: key, model: requestModel(required), operations: inLanes(operations),
		until: func(moment int64) partition { return request(key, ops, moment) },
	}
}

func requestOps(lines []line) []requestOp {
	asked := map[int]line{}
	decided, discarded := false, false
	for _, one := range lines {
		decided = decided || one.decides("request")
		// Also where nothing is said to be decided: then no 410 may be shown.
		discarded = discarded || one.F == "operator-discard"
		if one.F == "submit" {
			asked[one.Op] = one
		}
	}
	var ops []requestOp
	shown := map[[2]string]requestOp{}
	mismatches := map[string]requestOp{}
	for _, one := range lines {
		if one.F == "execution" {
			ops = append(ops, executionOps(one, asked)...)
			continue
		}
		if one.isDecision() {
			if one.decides("request") {
				ops = append(ops, decisionOps(one)...)
			}
			continue
		}
		if !one.answered() {
			continue
		}
		op := requestOp{line: one, content: one.Content, body: one.Body, call: one.call(), end: one.end()}
		switch {
		case one.Says == "created" || one.Says == "replayed":
			op.what = "shown"
			// A recorded answer stays, unless an operator decides: of operations that show the same one the first to end
			// implies the others.
			same := [2]string{one.Content, one.Body}
			if first, known := shown[same]; decided {
				ops = append(ops, op)
			} else if !known || op.end < first.end {
				shown[same] = op
			}
		case discarded && one.Code == "response-not-stored":
			op.what, op.body = "shown", notKept
			ops = append(ops, op)
		case one.Status == 422:
			op.what = "mismatch"
			for _, other := range lines {
				if other.F == "submit" && other.Content != one.Content && other.call() < op.end {
					op.possible = true
				}
			}
			// An impossible one is kept; else the last to begin implies the others.
			if last, known := mismatches[one.Content]; decided {
				ops = append(ops, op)
			} else if !known || (last.possible && (!op.possible || op.call > last.call)) {
				mismatches[one.Content] = op
			}
		}
	}
	for _, op := range shown {
		ops = append(ops, op)
	}
	for _, op := range mismatches {
		ops = append(ops, op)
	}
	return ops
}

func decisionOps(one line) (ops []requestOp) {
	for _, step := range one.steps() {
		ops = append(ops, requestOp{
			what: step.what, line: one, body: one.Result, optional: step.optional, call: one.call(), end: step.end,
		})
	}
	return ops
}

func executionOps(one line, asked map[int]line) []requestOp {
	begun := one.call()
	claimed := begun
	if of, known := asked[one.Op]; known {
		claimed = min(claimed, of.call())
	}
	ops := []requestOp{
		{what: "claimed", line: one, call: claimed, end: begun, lease: nanos(one.LeaseMs), worked: one.end()},
		{what: "begun", line: one, call: begun, end: begun},
	}
	if one.EndMs != nil {
		ops = append(ops, requestOp{
			what: "recorded", line: one, content: one.Content, body: one.Answer, optional: true, call: one.end(), end: never,
		})
	}
	return ops
}

func requestModel(required int) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return answerRegister{left: required} },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			before, op := state.(answerRegister), input.(requestOp)
			after, allowed := before.step(op)
			if op.optional {
				if allowed {
					return true, after
				}
				return before.left == 0, before
			}
			after.left--
			return allowed && op.end >= before.floor, after
		},
		DescribeOperation: func(input, _ interface{}) string { return input.(requestOp).told() },
		DescribeState: func(state interface{}) string {
			r := state.(answerRegister)
			if r.done {
				return "recorded: " + r.body
			}
			return fmt.Sprintf("open, largest token %d", r.largest)
		},
	}
}

func (r answerRegister) step(op requestOp) (answerRegister, bool) {
	switch op.what {
	case "recorded":
		allowed := !r.done
		return r.written(op.content, op.body), allowed
	case "claimed":
		allowed := !r.done && op.line.Token > r.largest && r.until <= op.end && !(r.ended && op.line.Attempt < 2)
		r.largest = op.line.Token
		r.floor = max(r.floor, r.until)
		r.until = min(max(op.call, r.floor)+op.lease, op.worked)
		return r, allowed
	case "begun":
		return r, !r.done || op.line.Token <= r.fenced
	case "mismatch":
		return r, op.possible && !(r.done && r.content == op.content)
	case "shown":
		r = r.returned()
		shows := r.done && r.body == op.body && (r.content == op.content || r.content == anyContent)
		r.content = op.content
		return r, shows
	default:
		return r.decided(op)
	}
}

func (r answerRegister) written(content, body string) answerRegister {
	r.done, r.content, r.body = true, content, body
	r.ended, r.mayReturn = false, recordedAnswer{}
	return r
}

func (r answerRegister) emptied() answerRegister {
	r.done, r.content, r.body, r.ended, r.until = false, "", "", false, 0
	return r
}

// The outcome that some node still has, where another one is not recorded.
func (r answerRegister) returned() answerRegister {
	if r.done || r.mayReturn == (recordedAnswer{}) {
		return r
	}
	return r.written(r.mayReturn.content, r.mayReturn.body)
}

func (r answerRegister) decided(op requestOp) (answerRegister, bool) {
	if op.line.Was == "completed" {
		r = r.returned()
		if !r.done {
			return r, false
		}
		if op.what == "by-hand" {
			return r.written(r.content, op.body), true
		}
		forgotten := recordedAnswer{r.content, r.body}
		r = r.emptied()
		if op.optional {
			r.mayReturn = forgotten
		}
		return r, true
	}
	if r.done || (r.largest > op.line.Token && !op.line.concernsLater()) {
		return r, false
	}
	if op.line.Was == "live" {
		r.until, r.fenced = 0, op.line.Token
	} else if r.until > op.end {
		return r, false
	}
	r.floor, r.largest = max(r.floor, r.until), max(r.largest, op.line.Token)
	switch op.what {
	case "ended":
		// Of a decision that goes on, or is not known to have been made, the next one need not be a further attempt.
		r.ended = r.ended || !op.optional
		return r, true
	case "forgotten":
		return r.emptied(), true
	default:
		return r.written(anyContent, op.body), true
	}
}

func (op requestOp) told() string {
	switch op.what {
	case "ended", "forgotten", "by-hand":
		return fmt.Sprintf("%s by %s %s", op.what, op.line.decision(), op.body)
	case "claimed", "begun":
		return fmt.Sprintf("%s #%d %.0f ms: token %d", op.what, op.line.Op, op.line.StartMs, op.line.Token)
	case "recorded":
		return fmt.Sprintf("recorded or not, of #%d: %s", op.line.Op, op.body)
	default:
		return fmt.Sprintf("#%d %.0f ms: %d %s %s", op.line.Op, op.line.StartMs, op.line.Status, op.line.Says, op.body)
	}
}
