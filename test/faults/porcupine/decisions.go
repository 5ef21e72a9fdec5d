package main

import "fmt"

// What an operator's decision does to a record: docs/operations/one-key.md. The sidecar says `done`, and then it took
// effect before the answer; or `nothing`; else each step may have taken effect, then or later, or never. It concerns no
// claim with a larger token than the one that the operator saw, unless it says that the work was executed.
//
// A forgetting that is not known to be done may have reached some nodes alone: then the outcome may come back from
// another one, once.
type decisionStep struct {
	// ended: the claim; forgotten: the record; by-hand: the outcome is written.
	what     string
	optional bool
	end      int64
}

func (l line) isDecision() bool {
	switch l.F {
	case "operator-end", "operator-complete", "operator-forget", "operator-ask", "operator-requeue", "operator-discard":
		return true
	}
	return false
}

// What it does to the record at last; empty: nothing, whatever became of it. What the application says when it is asked
// it says to the sweeper, too.
func (l line) lastStep() string {
	switch {
	case l.F == "operator-end":
		return "ended"
	case l.F == "operator-forget", l.F == "operator-requeue", l.F == "operator-ask" && l.Said == "released":
		return "forgotten"
	case l.F == "operator-complete", l.F == "operator-discard", l.F == "operator-ask" && l.Said == "completed":
		return "by-hand"
	}
	return ""
}

// That it was executed is true of every later attempt, too: who says so decides under no token.
func (l line) concernsLater() bool {
	return l.F == "operator-discard" || (l.F == "operator-ask" && l.Said == "completed")
}

// A line of the other kind of key, or a decision without effect.
func (l line) decides(of string) bool {
	return l.isDecision() && l.lastStep() != "" && l.Of == of && (l.Effect != "nothing" || !l.answered())
}

func (l line) steps() []decisionStep {
	done := l.answered() && l.Effect == "done"
	what := l.lastStep()
	last := decisionStep{what: what, optional: !done, end: never}
	if done {
		last.end = l.end()
	}
	// A live claim is ended before anything else is decided, which others may see.
	if what != "ended" && l.Was == "live" {
		return []decisionStep{{what: "ended", optional: true, end: never}, last}
	}
	return []decisionStep{last}
}

func (l line) decision() string {
	answer := "no answer"
	if l.answered() {
		answer = fmt.Sprintf("%d %s %s", l.Status, l.Code, l.Effect)
	}
	return fmt.Sprintf("#%d %.0f ms %s of %s %d: %s", l.Op, l.StartMs, l.F, l.Was, l.Token, answer)
}
