/*
 * One node: an acceptor of single-decree Paxos with a lease on top, for one record.
 *
 * Owns what each command does to the record of one node, and what a node that forgot is told of it. The same rules as
 * src/core/record/record-rules.ts and record-merge.ts, with time taken out: a lease is live or it has expired, and when it expires
 * is somebody else's choice. record.pml searches every order of these steps; trace.pml holds recorded runs to them.
 *
 * Numbers stand for what the record keeps as text: a ballot is a token, an owner is 1, 2, …, and 0 is nobody; a content is the
 * fingerprint of a request; an outcome is the bytes that are kept. 0 is "none" everywhere.
 */

#ifndef NUMBER
#define NUMBER byte
#endif
#ifndef ATTEMPT_MAX
#define ATTEMPT_MAX 1
#endif

/* States of a record. */
#define ABSENT    0
#define CLAIMED   1
#define RELEASED  2
#define COMPLETED 3

/* Answers. */
#define NO_ANSWER 0
#define GRANTED   1
#define HELD      2
#define MISMATCH  3
#define STALE     4
#define DONE      5	/* "completed": here is the outcome */
#define RENEWED   6
#define LOST      7
#define RECORDED  8
#define FENCED    9
#define GIVEN_BACK 10	/* "released" */
#define NOT_OWNER 11
#define SKEWED    12

typedef Record {
	byte state;
	NUMBER fence;		/* the largest ballot promised */
	NUMBER owner;		/* whose promise that is */
	bool live;		/* the lease has not expired */
	NUMBER attempt;
	NUMBER content;
	NUMBER accepted;	/* the ballot at which the outcome was accepted */
	NUMBER outcome;
	bool copied;		/* it was told of the outcome, it did not accept it */
	bool kept		/* of a claim: it was renewed at its fence */
};

Record record[N];

/* What the last command was answered, and whether it made the node accept an outcome. Read in the same step. */
hidden byte said;
hidden NUMBER said_attempt;
hidden byte said_promised;
hidden byte accepts;
hidden NUMBER said_token;
hidden byte said_kept;

inline erase(r) {
	r.state = ABSENT; r.fence = 0; r.owner = 0; r.live = 0; r.attempt = 0; r.content = 0;
	r.accepted = 0; r.outcome = 0; r.copied = 0; r.kept = 0
}

inline claim_it(r, token, who, what, nth, keeps) {
	r.state = CLAIMED; r.fence = token; r.owner = who; r.live = 1; r.attempt = nth; r.content = what; r.kept = keeps
}

inline one_more(r) {
	if
	:: r.attempt < ATTEMPT_MAX -> said_attempt = r.attempt + 1
	:: else -> said_attempt = ATTEMPT_MAX
	fi
}

/* claim(token, owner, content): phase 1 of Paxos, and a lease. */
inline on_claim(r, token, who, what) {
	said = STALE; said_attempt = 0; said_promised = 0; accepts = 0;
	if
	:: r.state == COMPLETED ->
		said = DONE;
		if
		:: token > r.fence -> r.fence = token; r.owner = who; said_promised = 1
		:: else -> said_promised = (token == r.fence && who == r.owner)
		fi
	:: r.state == CLAIMED && r.content != what -> said = MISMATCH
	:: r.state == CLAIMED && r.content == what && r.live && r.owner == who && !r.kept && token >= r.fence ->
		said = GRANTED; said_attempt = r.attempt
	:: r.state == CLAIMED && r.content == what && r.live && (r.owner != who || r.kept) -> said = HELD
	:: r.state == CLAIMED && r.content == what && !r.live && token > r.fence -> said = GRANTED; one_more(r)
	:: r.state == ABSENT || (r.state == RELEASED && token > r.fence) -> said = GRANTED; said_attempt = 1
	:: else -> skip
	fi;
	if
	:: said == GRANTED -> claim_it(r, token, who, what, said_attempt, 0)
	:: else -> skip
	fi
}

/* The same on a node whose memory is full, of a record that is completed: it answers, and can't write its promise down. */
inline on_claim_when_full(r, token, who) {
	said_attempt = 0; accepts = 0; said_promised = (token == r.fence && who == r.owner);
	if
	:: r.state == COMPLETED -> said = DONE
	:: else -> said = NO_ANSWER
	fi
}

/*
 * renew(token, owner, content, attempt): also repairs a node that missed the claim, and keeps it: what still belongs to the claiming of it is
 * refused from then on. `raises`: a part of claiming several records, which keeps nothing itself.
 */
inline on_renew(r, token, who, what, nth, raises) {
	said = LOST; said_attempt = 0; said_promised = 0; accepts = 0;
	if
	:: r.state == ABSENT -> said = RENEWED
	:: r.state != ABSENT && token < r.fence -> skip
	:: r.state == COMPLETED && token >= r.fence ->
		if
		:: r.accepted == token && r.owner == who -> said = RENEWED
		:: else -> skip
		fi
	:: r.state == RELEASED && token > r.fence -> said = RENEWED
	:: r.state == CLAIMED && token >= r.fence && r.owner == who && !(raises && r.kept && token > r.fence) -> said = RENEWED
	:: r.state == CLAIMED && token > r.fence && r.owner != who && !r.live -> said = RENEWED
	:: else -> skip
	fi;
	if
	:: said == RENEWED && r.state != COMPLETED ->
		said_kept = !raises || (r.state == CLAIMED && r.owner == who && r.kept);
		claim_it(r, token, who, what, nth, said_kept)
	:: else -> skip
	fi
}

/* complete(token, owner, content, attempt, outcome): phase 2 of Paxos. Also on a node that never saw the claim. */
inline on_complete(r, token, who, what, nth, result) {
	said = FENCED; said_attempt = 0; said_promised = 0; accepts = 0;
	if
	:: r.state == COMPLETED && !r.copied && r.accepted == token && r.outcome == result -> said = RECORDED
	/* One ballot has one value. */
	:: r.state == COMPLETED && !r.copied && r.accepted == token && r.outcome != result -> said = DONE
	:: else ->
		if
		:: r.state == ABSENT || token > r.fence -> accepts = 1
		:: r.state != ABSENT && token == r.fence && r.state != RELEASED && r.owner == who -> accepts = 1
		:: r.state == COMPLETED && (token < r.fence || (token == r.fence && r.owner != who)) -> said = DONE
		:: else -> skip
		fi
	fi;
	if
	:: accepts ->
		said = RECORDED;
		r.state = COMPLETED; r.fence = token; r.owner = who; r.live = 0; r.attempt = nth; r.content = what;
		r.accepted = token; r.outcome = result; r.copied = 0; r.kept = 0
	:: else -> skip
	fi
}

/*
 * learn(token, owner, …, ballot, outcome): what somebody else achieved takes the place of the promise that this node made for it. Either the
 * outcome is chosen at `ballot`, and this node granted our claim because it had missed it; then the ballot is that of the majority. Or we
 * adopt the outcome of a minority; then the ballot is our own token, and this node may have an older outcome.
 * Only where our own promise stands: a record that has expired took its promise along.
 */
inline on_learn(r, token, who, what, nth, at_ballot, result) {
	said = FENCED; said_attempt = 0; said_promised = 0; accepts = 0;
	if
	:: r.state == COMPLETED && !r.copied && r.accepted == at_ballot && r.outcome == result -> said = RECORDED
	:: r.fence == token && r.owner == who && (r.state == CLAIMED || (r.state == COMPLETED && r.accepted < at_ballot)) ->
		accepts = 1; said = RECORDED;
		r.state = COMPLETED; r.live = 0; r.attempt = nth; r.content = what;
		r.accepted = at_ballot; r.outcome = result; r.copied = 0; r.kept = 0
	:: r.state == COMPLETED && !(!r.copied && r.accepted == at_ballot && r.outcome == result) && !(r.fence == token && r.owner == who && r.accepted < at_ballot) -> said = DONE
	:: else -> skip
	fi
}

/*
 * release(token, owner): the fence stays. Of a takeover it gives the expired claim of the earlier attempt back. `withdraws`: by a claimant that was
 * not granted it, or never answered with it. What another call of its session keeps stays.
 */
inline on_release(r, token, who, withdraws) {
	said = NOT_OWNER; said_attempt = 0; said_promised = 0; accepts = 0;
	if
	:: r.state == ABSENT || (r.state == RELEASED && token >= r.fence) -> erase(r); r.state = RELEASED; r.fence = token; said = GIVEN_BACK
	:: r.state == CLAIMED && r.fence == token && r.owner == who && !(withdraws && r.kept) ->
		said = GIVEN_BACK;
		if
		:: r.attempt <= 1 -> erase(r); r.state = RELEASED; r.fence = token
		:: else -> r.owner = 0; r.live = 0; r.kept = 0; r.attempt = r.attempt - 1
		fi
	:: else -> skip
	fi
}

/* -------- What a node that forgot is told: record-merge.ts. */

inline copy_record(to, from) {
	to.state = from.state; to.fence = from.fence; to.owner = from.owner; to.live = from.live; to.attempt = from.attempt;
	to.content = from.content; to.accepted = from.accepted; to.outcome = from.outcome; to.copied = from.copied;
	to.kept = from.kept
}

/* `under` has the smaller ballot; what became of that claim is unknown. */
inline attempt_over(over, under) {
	if
	:: over.owner == 0 -> said_attempt = under.attempt
	:: else -> one_more(under)
	fi;
	if
	:: over.attempt > said_attempt -> said_attempt = over.attempt
	:: else -> skip
	fi
}

inline claim_under(into, other) {
	said_token = into.fence;
	copy_record(into, other);
	into.fence = said_token; into.owner = 0; into.live = 0; into.kept = 0
}

/* Neither of the two shows an outcome, and neither is absent. */
inline merge_undecided(into, other, tie) {
	if
	:: into.fence == other.fence && other.state == RELEASED -> skip
	:: into.fence == other.fence && other.state == CLAIMED && into.state == RELEASED -> copy_record(into, other)
	:: into.fence == other.fence && other.state == CLAIMED && into.state == CLAIMED ->
		/* A claim that was given back counts what was there before it. */
		said_attempt = into.attempt;
		if
		:: into.owner == 0 && other.owner != 0 -> one_more(into)
		:: other.owner == 0 && into.owner != 0 -> one_more(other); if :: into.attempt > said_attempt -> said_attempt = into.attempt :: else -> skip fi
		:: else -> skip
		fi;
		if
		:: other.attempt > said_attempt -> said_attempt = other.attempt
		:: else -> skip
		fi;
		if
		:: (other.live && !into.live) || (other.live == into.live && tie) ->
			said_kept = into.kept; copy_record(into, other); into.kept = into.kept || said_kept
		:: else -> into.kept = into.kept || other.kept
		fi;
		into.attempt = said_attempt
	:: into.fence > other.fence && other.state == CLAIMED && into.state == RELEASED -> claim_under(into, other)
	:: into.fence > other.fence && other.state == CLAIMED && into.state == CLAIMED && into.content == other.content ->
		attempt_over(into, other)
	:: into.fence < other.fence && other.state == CLAIMED && into.state == CLAIMED && into.content == other.content ->
		attempt_over(other, into);
		copy_record(into, other); into.attempt = said_attempt
	:: into.fence < other.fence && other.state == CLAIMED && !(into.state == CLAIMED && into.content == other.content) ->
		copy_record(into, other)
	:: into.fence < other.fence && other.state == RELEASED && into.state == RELEASED -> into.fence = other.fence
	:: into.fence < other.fence && other.state == RELEASED && into.state == CLAIMED ->
		into.fence = other.fence; into.owner = 0; into.live = 0; into.kept = 0
	:: else -> skip
	fi
}

/*
 * into := into merged with other. `tie` says which of two live leases of one ballot is the longer one (1: other's): a model
 * without time lets it be either.
 */
inline merge(into, other, tie) {
	if
	:: other.state == ABSENT -> skip
	:: other.state != ABSENT && into.state == ABSENT -> copy_record(into, other)
	:: other.state == COMPLETED && into.state == COMPLETED ->
		if
		:: other.fence > into.fence -> into.fence = other.fence; into.owner = other.owner
		:: other.fence == into.fence && other.owner > into.owner -> into.owner = other.owner
		:: else -> skip
		fi;
		if
		:: other.accepted > into.accepted ->
			into.accepted = other.accepted; into.outcome = other.outcome;
			into.attempt = other.attempt; into.content = other.content
		:: else -> skip
		fi;
		into.copied = (into.fence != into.accepted)
	:: other.state == COMPLETED && (into.state == CLAIMED || into.state == RELEASED) ->
		into.live = 0; into.kept = 0;
		if
		:: into.fence > other.fence -> skip
		:: else -> into.fence = other.fence; into.owner = other.owner
		fi;
		into.state = COMPLETED; into.attempt = other.attempt; into.content = other.content;
		into.accepted = other.accepted; into.outcome = other.outcome; into.copied = (into.fence != into.accepted)
	:: into.state == COMPLETED && (other.state == CLAIMED || other.state == RELEASED) ->
		if
		:: other.fence > into.fence -> into.fence = other.fence; into.owner = other.owner
		:: else -> skip
		fi;
		into.copied = (into.fence != into.accepted)
	:: else -> merge_undecided(into, other, tie)
	fi
}

/* r, the node's own, is told `theirs`. `chosen`: a majority accepted that very outcome, so whoever holds it holds it for good. */
inline on_adopt(r, theirs, majority, tie) {
	if
	:: r.state == ABSENT -> copy_record(r, theirs)
	:: r.state == CLAIMED && theirs.state == CLAIMED && r.fence > theirs.fence && r.content != theirs.content ->
		/* Granted for another content while the node did not vote, so counted by nobody; a promise all the same. */
		said_token = r.fence;
		copy_record(r, theirs);
		r.fence = said_token; r.owner = 0; r.kept = 0
	:: else ->
		merge(r, theirs, tie);
		if
		:: majority && r.state == COMPLETED && theirs.accepted == r.accepted -> r.copied = 0
		:: else -> skip
		fi
	fi
}
