package main

import (
	"fmt"
	"strings"

	"github.com/anishathalye/porcupine"
)

// A value of the reservation API: a register of leases with fencing tokens, and of a write-once outcome.
//
// A lease ends by itself. Its earliest possible end is known: the remaining time in the answer, counted from the start
// of
// the call. An operation that needs the end of a lease can't have ended before that moment, and none that follows it
// can.
//
// Refusals say nothing here, with these exceptions: a duplicate shows the outcome; `fenced` says that the offered
// outcome
// will never be recorded. A call without an answer, or with 503, may take effect at any later time, or never. A
// reservation
// whose answer was lost holds nothing in the model, and neither does an earlier claim of one that got its grant later; a look
// may find them (`foreign`).
//
// An operator ends a claim, and the next grant is a further attempt; makes the value free; or completes it by hand
// (decisions.go). While it decides it is a claimant, which looks may find like any other.
type register struct {
	// Ends of leases that earlier operations relied on: no later operation can have ended before.
	floor   int64
	largest int64
	// The last claim that was not given back, and what stands again where the last one is.
	stands, before int64
	holder         int64
	until          int64
	// Of the last grant: above 1 an earlier attempt ended without an outcome, and stands again where this one is given
	// back.
	attempt int
	done    bool
	outcome string
	// Results whose completion was refused for good, each between line feeds.
	dead string
	// The last claim was ended by an operator: it is expired, and the next grant is told of it.
	ended bool
	// An outcome that was perhaps forgotten by some nodes alone; empty without one.
	mayReturn string
	// Required operations that are left: an optional one has no effect only when none is left.
	left int
}

type reservationOp struct {
	line
	call, end int64
	optional  bool
	// A reservation whose answer was lost had been requested by then, or one was under way.
	foreign bool
	// An operator's own claim may have stood at that time: nothing follows from its token.
	deciding bool
	// The session that got this token first.
	sessionOfToken string
	// The results that were offered under this token.
	ownResults map[string]bool
	// Of an operator: ended, forgotten or by-hand.
	what string
}

func reservations(lines []line) []partition {
	keys, groups := grouped(lines, func(l line) (string, bool) {
		return l.Key, l.F != "submit" && l.F != "execution" && (!l.isDecision() || l.decides("reservation"))
	})
	var partitions []partition
	for _, key := range keys {
		ops := reservationOps(groups[key])
		part := reservation(key, ops, never)
		if part.required() {
			partitions = append(partitions, part)
		}
	}
	return partitions
}

func reservation(key string, ops []reservationOp, until int64) partition {
	operations, required := begunBy(until, ops, func(op *reservationOp) (int64, *int64, *bool) {
		return op.call, &op.end, &op.optional
	})
	return partition{
		kind: "reservation", key: key, model: reservationModel(required), operations: inLanes(operations),
		until: func(moment int64) partition { return reservation(key, ops, moment) },
	}
}

func reservationOps(lines []line) (ops []reservationOp) {
	firstUnheard := int64(never)
	sessions := map[int64]string{}
	results := map[int64]map[string]bool{}
	for _, one := range lines {
		if one.F == "reserve" && (!one.answered() || one.Status != 201) {
			firstUnheard = min(firstUnheard, one.call())
		}
		if one.F == "reserve" && one.answered() && one.Status == 201 {
			if _, known := sessions[one.Token]; !known {
				sessions[one.Token] = one.Session
			}
		}
		if one.F == "complete" {
			if results[one.Token] == nil {
				results[one.Token] = map[string]bool{}
			}
			results[one.Token][one.Result] = true
		}
	}
	for _, one := range lines {
		if one.isDecision() {
			for _, step := range one.steps() {
				ops = append(ops, reservationOp{
					line: one, call: one.call(), end: step.end, optional: step.optional, what: step.what,
				})
			}
			continue
		}
		says, optional := tells(one)
		if !says {
			continue
		}
		op := reservationOp{
			line: one, call: one.call(), end: one.end(), optional: optional,
			sessionOfToken: sessions[one.Token], ownResults: results[one.Token],
		}
		op.foreign = firstUnheard <= op.end || reservedMeanwhile(one, lines)
		op.deciding = decidedMeanwhile(one, lines)
		if optional {
			op.end = never
		}
		ops = append(ops, op)
	}
	return ops
}

// Whether a reservation was under way at the time of a look. One that waits for its grant, or whose replies are lost, claims
// and gives back several times, each time under a larger token: a look may find an earlier one.
func reservedMeanwhile(look line, lines []line) bool {
	for _, one := range lines {
		if one.F == "reserve" && one.call() <= look.end() && one.end() >= look.call() {
			return true
		}
	}
	return false
}

// Whether an operator may have been deciding at the time of a look.
func decidedMeanwhile(look line, lines []line) bool {
	for _, one := range lines {
		if !one.isDecision() || one.call() > look.end() {
			continue
		}
		if one.Effect != "done" || one.end() >= look.call() {
			return true
		}
	}
	return false
}

// Whether anything follows from it, and whether it may have had no effect.
func tells(l line) (says, optional bool) {
	switch l.F {
	case "reserve":
		return l.answered() && (l.Status == 201 || l.Code == "reservation-duplicate"), false
	case "extend":
		return l.answered() && l.Status == 200, false
	case "release":
		return l.unknown() || l.Status == 200, l.unknown()
	case "complete":
		return l.unknown() || l.Status == 200 || l.Status == 410, l.unknown()
	default:
		return l.answered() && l.Status == 200, false
	}
}

func reservationModel(required int) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return register{left: required} },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			before, op := state.(register), input.(reservationOp)
			if op.optional {
				if after, took := before.maybe(op); took {
					return true, after
				}
				return before.left == 0, before
			}
			if op.end < before.floor {
				return false, before
			}
			after, allowed := before.step(op)
			after.left--
			return allowed, after
		},
		DescribeOperation: func(input, _ interface{}) string { return input.(reservationOp).told() },
		DescribeState:     func(state interface{}) string { return state.(register).told() },
	}
}

func (r register) isDead(result string) bool { return strings.Contains(r.dead, "\n"+result+"\n") }

// It has no holder, or the holder may have lost it by the end of the operation.
func (r register) free(end int64) (register, bool) {
	if r.holder == 0 {
		return r, true
	}
	r.floor = max(r.floor, r.until)
	return r, r.until <= end
}

func (r register) leased(op reservationOp) register {
	r.until = max(op.call, r.floor) + nanos(op.ExpiresMs)
	return r
}

func (r register) step(op reservationOp) (register, bool) {
	if op.what != "" {
		return r.decided(op)
	}
	if op.showsOutcome() {
		r = r.returned(op.Outcome)
	}
	switch op.F {
	case "reserve":
		if op.Status != 201 {
			return r, r.done && r.outcome == op.Outcome
		}
		return r.reserve(op)
	case "extend":
		return r.leased(op), !r.done && r.holder == op.Token
	case "release":
		if r.holder == op.Token {
			r.holder, r.stands = 0, r.before
			return r, !r.done
		}
		// A repeated release, without a claim in between.
		return r, !r.done && r.holder == 0 && r.largest == op.Token
	case "complete":
		return r.complete(op)
	case "standing":
		return r.standing(op)
	default:
		return r.standingOf(op)
	}
}

func (op reservationOp) showsOutcome() bool {
	return op.State == "COMPLETED" || (op.F == "reserve" && op.Status != 201)
}

// The outcome that some node still has, where another one is not recorded.
func (r register) returned(outcome string) register {
	if !r.done && r.mayReturn != "" && r.mayReturn == outcome {
		r.done, r.outcome, r.mayReturn = true, outcome, ""
	}
	return r
}

func (r register) decided(op reservationOp) (register, bool) {
	if op.Was == "completed" {
		r = r.returned(r.mayReturn)
		if !r.done {
			return r, false
		}
		if op.what == "by-hand" {
			return r.byHand(op), true
		}
		forgotten := r.outcome
		r.done, r.outcome, r.holder, r.ended, r.stands, r.before = false, "", 0, false, 0, 0
		if op.optional {
			r.mayReturn = forgotten
		}
		return r, true
	}
	if r.done || (r.stands > op.Token && !op.concernsLater()) {
		return r, false
	}
	after, free := r, true
	if op.Was != "live" {
		after, free = r.free(op.end)
	}
	after.holder, after.largest, after.stands = 0, max(r.largest, op.Token), max(r.stands, op.Token)
	switch op.what {
	case "ended":
		// Of a decision that goes on, or is not known to have been made, the next one need not be a further attempt.
		after.ended = r.ended || !op.optional
		return after, free
	case "forgotten":
		after.ended, after.attempt, after.stands, after.before = false, 0, 0, 0
		return after, free
	default:
		return after.byHand(op), free
	}
}

func (r register) byHand(op reservationOp) register {
	r.holder, r.ended, r.mayReturn = 0, false, ""
	r.done, r.outcome = true, op.Result
	return r
}

func (r register) reserve(op reservationOp) (register, bool) {
	if r.done {
		return r, false
	}
	if r.holder == op.Token {
		// The same session, which reserves again what it holds.
		return r.leased(op), op.Session != "" && op.Session == op.sessionOfToken
	}
	after, free := r.free(op.end)
	after.before, after.stands = r.stands, op.Token
	after.largest, after.holder, after.attempt = op.Token, op.Token, op.Attempt
	return after.leased(op), free && op.Token > r.largest && !(r.ended && op.Attempt < 2)
}

func (r register) complete(op reservationOp) (register, bool) {
	if op.Status == 410 {
		if !r.isDead(op.Result) {
			r.dead += "\n" + op.Result + "\n"
		}
		return r, !(r.done && r.outcome == op.Result)
	}
	if r.done {
		return r, r.outcome == op.Result
	}
	return r.recorded(op), r.holder == op.Token && !r.isDead(op.Result)
}

func (r register) recorded(op reservationOp) register {
	r.done, r.outcome, r.ended, r.mayReturn = true, op.Result, false, ""
	return r
}

// An operation that may have had no effect, if it takes effect: never answered, or not yet where the history is cut.
func (r register) maybe(op reservationOp) (register, bool) {
	if op.what == "" && op.unknown() {
		return r.unanswered(op)
	}
	return r.step(op)
}

// An operation without an answer.
func (r register) unanswered(op reservationOp) (register, bool) {
	if r.done {
		return r, false
	}
	if op.F == "release" {
		if r.holder != op.Token {
			return r, false
		}
		r.holder, r.stands = 0, r.before
		return r, true
	}
	if r.isDead(op.Result) {
		return r, false
	}
	if op.Token == r.largest {
		return r.recorded(op), true
	}
	// Some node had it, and a later claimant adopts it: not while the value has a holder.
	after, _ := r.free(never)
	return after.recorded(op), true
}

func (r register) standing(op reservationOp) (register, bool) {
	switch op.State {
	case "COMPLETED":
		return r, r.done && r.outcome == op.Outcome
	case "FREE":
		after, free := r.free(op.end)
		return after, free && !r.done
	case "HELD", "EXPIRED":
		if r.done {
			return r, false
		}
		if op.ShownToken == r.holder && r.holder != 0 {
			if op.State == "HELD" {
				return r, true
			}
			return r.free(op.end)
		}
		if op.State == "EXPIRED" && op.ShownToken == r.largest && r.attempt > 1 {
			return r, true
		}
		// A claim that was ended stands under the token of the operator.
		if op.State == "EXPIRED" && r.ended && r.holder == 0 && op.ShownToken >= r.largest {
			return r, true
		}
		// A reservation whose answer was lost: its lease is not known. An expired one may also have been granted by fewer
		// nodes than a majority and shown because the others were silent: the next look need not show it.
		after, free := r.free(op.end)
		allowed := free && (op.foreign || op.deciding) && op.ShownToken > r.largest
		if op.State == "HELD" && !op.deciding {
			after.largest, after.holder, after.until = op.ShownToken, op.ShownToken, after.floor
		}
		return after, allowed
	}
	return r, false
}

func (r register) standingOf(op reservationOp) (register, bool) {
	switch op.State {
	case "COMPLETED":
		return r, r.done && r.outcome == op.Outcome
	case "HELD":
		return r, !r.done && r.holder == op.Token
	case "EXPIRED":
		after, over := r.free(op.end)
		return after, over && !r.done && r.holder == op.Token
	case "LOST":
		if r.done {
			return r, !op.ownResults[r.outcome]
		}
		if r.holder != op.Token {
			return r, true
		}
		return r.free(op.end)
	}
	return r, false
}

func (op reservationOp) told() string {
	if op.what != "" {
		return fmt.Sprintf("%s by %s %s", op.what, op.decision(), op.Result)
	}
	answer := "no answer"
	if op.answered() {
		answer = strings.TrimSpace(fmt.Sprintf("%d %s %s %s", op.Status, op.Code, op.State, op.Outcome))
	}
	if op.ShownToken != 0 {
		answer += fmt.Sprintf(" of %d", op.ShownToken)
	}
	if op.ExpiresMs > 0 {
		answer += fmt.Sprintf(" for %.0f ms", op.ExpiresMs)
	}
	of := ""
	if op.Token != 0 {
		of = fmt.Sprint(op.Token)
	}
	return fmt.Sprintf("%s(%s) #%d %.0f ms: %s", op.F, of, op.Op, op.StartMs, answer)
}

func (r register) told() string {
	if r.done {
		return "done: " + r.outcome
	}
	if r.holder == 0 {
		return fmt.Sprintf("free, largest token %d", r.largest)
	}
	return fmt.Sprintf("held by %d, at least until %d ms", r.holder, r.until/1e6)
}
