package main

import "fmt"

// What an operator's decision does to a record: docs/operations/one-key.md. The sidecar says `done`, and then it took
// effect before the answer; or `nothing`; else each step may have taken effect, then or later, or never. It concerns no
// claim with a larger token than the one that the operator saw.
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
	return l.F == "operator-end" || l.F == "operator-complete" || l.F == "operator-forget"
}

// A line of the other kind of key, or a decision without effect.
func (l line) decides(of string) bool {
	return l.isDecision() && l.Of == of && (l.Effect != "nothing" || !l.answered())
}

func (l line) steps() []decisionStep {
	done := l.answered() && l.Effect == "done"
	what := map[string]string{"operator-end": "ended", "operator-complete": "by-hand", "operator-forget": "forgotten"}[l.F]
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
