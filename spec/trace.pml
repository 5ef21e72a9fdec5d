/*
 * A recorded run, held to the model: each step of it is taken by the rules of acceptor.pml, and must come to what was recorded.
 *
 * The steps come from a driver that is written for each run (test/spec/trace.ts) and included at the end. What the driver may say is the
 * order of the steps, when a lease has expired, and what a node remembers when it comes back; what a command is answered, what the record is then,
 * and whether a claimant may conclude what it concluded, the model says. Run by `spin`, not by a search: nothing is left to choose.
 */

#define NUMBER short
#define ATTEMPT_MAX 9999
#ifndef N
#define N 5
#endif
#define MAJORITY (N / 2 + 1)
#define MOST 250

#include "acceptor.pml"

#define ANEW     0	/* another record: nothing is known of it */
#define CLAIM    1
#define RENEW    2
#define COMPLETE 3
#define LEARN    4
#define RELEASE  5
#define EXPIRE    6	/* the lease is live (1) or has expired (0) */
#define FORGET   7	/* the node does not vote, and remembers this */
#define TELL     8	/* while it does not vote it is told of other nodes' records */
#define VOTE     9
#define GRANT    10	/* a claimant concludes: granted */
#define SHOW     11	/* somebody is shown an outcome, or told "recorded" */
#define NOTHING  12	/* refused for its clock or for want of memory: nothing changes */
#define CLAIM_WHEN_FULL 13

typedef Step {
	byte kind; byte node; bool counted;
	NUMBER with_token; NUMBER by_owner; NUMBER of_content; NUMBER number; NUMBER at_token;
	NUMBER with_outcome;	/* of a renewal and a release: 1 where it raises or withdraws */
	byte answer; NUMBER answer_attempt; bool promised
};

/* The record after the step, as it was recorded. */
chan steps = [0] of { Step, Record };

Step step;
Record after;
int steps_so_far;
bool votes[N];
NUMBER granted_by[MOST];	/* by claim: the nodes that answered "granted" and were counted, a bit a node */
NUMBER acceptors[MOST];		/* by ballot */
NUMBER accepted_at[MOST];
NUMBER chosen;
NUMBER last_granted;
NUMBER says[MOST];		/* what an outcome says, whenever it was completed */
byte k;
byte bits;

hidden byte same_answer, same_record, same_attempt, same_promise, counts_only_where_it_votes, only_raises, granted_by_majority, tokens_increase,
	no_grant_after_outcome, at_most_one_outcome, shown_is_chosen;

#define must(property, condition) property = (condition); \
	if :: property -> skip :: else -> printf("step %d (kind %d, node %d) is not one of the model\n", steps_so_far, step.kind, step.node) fi; \
	assert(property)

inline count_bits(mask) {
	bits = 0; k = 0;
	do
	:: k < N -> bits = bits + ((mask >> k) & 1); k = k + 1
	:: else -> break
	od
}

inline note_acceptance() {
	if
	:: votes[step.node] && record[step.node].state == COMPLETED && !record[step.node].copied ->
		acceptors[record[step.node].accepted] = acceptors[record[step.node].accepted] | (1 << step.node);
		count_bits(acceptors[record[step.node].accepted]);
		if
		:: bits >= MAJORITY ->
			must(at_most_one_outcome, chosen == 0 || says[chosen] == says[record[step.node].outcome]);
			chosen = record[step.node].outcome
		:: else -> skip
		fi
	:: else -> skip
	fi
}

inline compare() {
	/* Of an answer that was not counted nobody knows what it said. */
	must(same_answer, !step.counted || said == step.answer);
	must(same_attempt, !step.counted || said != GRANTED || said_attempt == step.answer_attempt);
	must(same_promise, !step.counted || said != DONE || step.kind != CLAIM || said_promised == step.promised);
	must(counts_only_where_it_votes, !step.counted || votes[step.node]);
	compare_record()
}

inline compare_record() {
	must(same_record, record[step.node].state == after.state && record[step.node].fence == after.fence && record[step.node].owner == after.owner
		&& record[step.node].attempt == after.attempt && record[step.node].content == after.content && record[step.node].accepted == after.accepted
		&& record[step.node].outcome == after.outcome && record[step.node].copied == after.copied && record[step.node].live == after.live
		&& record[step.node].kept == after.kept)
}

inline anew() {
	k = 0;
	do
	:: k < N -> erase(record[k]); votes[k] = 1; k = k + 1
	:: else -> break
	od;
	k = 0;
	do
	:: k < MOST -> granted_by[k] = 0; acceptors[k] = 0; says[k] = 0; k = k + 1
	:: else -> break
	od;
	chosen = 0; last_granted = 0
}

proctype Model() {
	do
	:: steps?step,after ->
		d_step {
			steps_so_far = steps_so_far + 1;
			if
			:: step.kind == ANEW && step.with_token == 0 -> anew()
			:: step.kind == ANEW && step.with_token != 0 -> says[step.with_token] = step.with_outcome
			:: step.kind == CLAIM ->
				on_claim(record[step.node], step.with_token, step.by_owner, step.of_content);
				compare();
				if
				:: said == GRANTED && step.counted -> granted_by[step.number] = granted_by[step.number] | (1 << step.node)
				:: else -> skip
				fi
			:: step.kind == CLAIM_WHEN_FULL -> on_claim_when_full(record[step.node], step.with_token, step.by_owner); compare()
			:: step.kind == RENEW -> on_renew(record[step.node], step.with_token, step.by_owner, step.of_content, step.number, step.with_outcome); compare()
			:: step.kind == COMPLETE ->
				on_complete(record[step.node], step.with_token, step.by_owner, step.of_content, step.number, step.with_outcome);
				compare(); note_acceptance()
			:: step.kind == LEARN ->
				on_learn(record[step.node], step.with_token, step.by_owner, step.of_content, step.number, step.at_token, step.with_outcome);
				compare(); note_acceptance()
			:: step.kind == RELEASE -> on_release(record[step.node], step.with_token, step.by_owner, step.with_outcome); compare()
			:: step.kind == NOTHING -> compare_record()
			:: step.kind == EXPIRE -> record[step.node].live = step.with_token
			:: step.kind == FORGET -> votes[step.node] = 0; copy_record(record[step.node], after)
			:: step.kind == TELL ->
				/* But an outcome that came late, to a node that had forgotten the promise above it: that one is dropped. */
				must(only_raises, !votes[step.node] && after.fence >= record[step.node].fence &&
					(after.accepted >= record[step.node].accepted || (after.state != COMPLETED && record[step.node].accepted < after.fence)));
				copy_record(record[step.node], after)
			:: step.kind == VOTE ->
				votes[step.node] = 1;
				k = 0;
				do
				:: k < MOST -> acceptors[k] = acceptors[k] & (511 - (1 << step.node)); k = k + 1
				:: else -> break
				od;
				note_acceptance()
			:: step.kind == GRANT ->
				count_bits(granted_by[step.number]);
				must(granted_by_majority, bits >= MAJORITY);
				must(tokens_increase, step.with_token > last_granted);
				must(no_grant_after_outcome, chosen == 0);
				last_granted = step.with_token
			:: step.kind == SHOW -> must(shown_is_chosen, chosen != 0 && says[chosen] == step.with_outcome)
			fi;
			k = 0; bits = 0
		}
	od
}

#define s(kind, node, counted, token, who, what, nth, ballot, result, answer, attempt, promised, state, fence, owner, live, att, content, accepted, outcome, copied, kept) \
	steps!kind,node,counted,token,who,what,nth,ballot,result,answer,attempt,promised,state,fence,owner,live,att,content,accepted,outcome,copied,kept

proctype Driver() {
#include "steps.pml"
	printf("accepted: every step is one of the model\n")
}

init { atomic { run Model(); run Driver() } }
