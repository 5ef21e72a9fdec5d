/*
 * The record protocol: claimants, nodes, and everything that may go wrong between them, in every order.
 *
 * There is no clock and no network in it. A message may be carried out at any later moment, or never; its answer is heard or lost.
 * A lease expires when it likes, only not on a node on whose word a holder still relies (that is what the drift margin is for). A node
 * forgets everything when it likes, within the bound that a majority remembers. README.md says what is left out.
 *
 * Sizes, with -D: SESSIONS claims of one key; BALLOTS to choose from; WIPES, how often a node forgets; REJOINS that bring it back;
 * RENEWALS and OFFERS (how often an outcome is offered) of one session. Each rule that mends a finding goes with -DNO_…:
 * NO_TALLY, NO_LEARN, NO_REFUSALS, NO_NONCE, NO_AGE, and those of reader.pml, which READS adds. What is left out to make a search smaller goes with NO_TIES (equal ballots),
 * ASCENDING (ballots in the order of the sessions), NO_OUTCOMES, NO_GIVING_UP, RACERS and LATE (below).
 */

#define N 3
#define MAJORITY 2

#ifndef SESSIONS
#define SESSIONS 2
#endif
#ifndef BALLOTS
#define BALLOTS 2
#endif
#ifndef WIPES
#define WIPES 0
#endif
#ifndef REJOINS
#define REJOINS 0
#endif
#ifndef RENEWALS
#define RENEWALS 0
#endif
#ifndef OFFERS
#define OFFERS 1
#endif
/* How many sessions claim at once. */
#ifndef RACERS
#define RACERS SESSIONS
#endif
/* How many messages are carried out that nobody waits for any more: of sessions that have ended. */
#ifndef LATE
#define LATE 99
#endif
/* Session 0 is of content 1; with CONTENTS 2 session 1 is of another. Owners are all different. */
#ifndef CONTENTS
#define CONTENTS 1
#endif

#include "acceptor.pml"

/* -------- Sessions: a claim of the key, and what comes of it. */

#define IDLE       0
#define CLAIMING   1
#define HOLDING    2
#define COMPLETING 3
#define ADOPTING   4
#define ENDED      5

/* An answer whose lease has expired since: a promise, and no grant any more. */
#define PROMISED 13

/* Between one session and one node: which messages are under way, and what was heard on what the session asked last. */
typedef Link {
	bool claim; bool renew; bool complete; bool release; bool learn;
	byte heard; byte accepted; byte outcome; bool copied; bool promised
};

typedef Session {
	byte phase;
	byte ballot;
	byte offer;		/* the outcome that it offers: its own, or one that it adopts */
	byte learnt;		/* the ballot of a chosen outcome that it tells of */
	byte offers;
	byte renewals;
	bool renewing;
	bool valid;		/* by the true time its lease has not expired; it need not know */
	bool surely_without;	/* it was told that its outcome is surely without effect */
	byte relies;		/* on the word of which nodes its lease rests */
	Link link[N]
};

Session session[SESSIONS];

#define owner_of(s) ((s) + 1)
#define own_outcome(s) ((s) + 1)
#define content_of(s) (1 + ((s) % CONTENTS))

/* -------- Who forgot what, and who is told of it. */

#define VOTING      0
#define FORGOT      1	/* the quarantine stands */
#define LEARNING    2	/* the quarantine is over: the node is told what the others remember */

byte member[N];
byte nonce[N];			/* how often it forgot: each quarantine has a nonce of its own */
byte wipes;
byte late;

#define READY  0
#define HEARD  1	/* one node has shown its record */
#define MERGED 2	/* a majority has; the message to the node that forgot is under way */
#define TOLD   3

typedef Rejoin { byte stage; byte target; byte nonce; byte first; bool chosen; Record sight };

#if REJOINS > 0
Rejoin rejoin[REJOINS];
#endif

/* -------- Ghosts: what only the judge knows. */

byte chosen;			/* the outcome that a majority accepted at one ballot, for good; 0: none yet */
byte shown;			/* the outcome that somebody was shown, or was told is recorded */
byte last_granted;		/* the largest ballot granted so far */
byte acceptors[BALLOTS + 1];	/* who accepted at a ballot while it voted: a bit a node. What a node forgot counts until others are asked for it */
byte value_of[BALLOTS + 1];	/* what was accepted at it */

/* -------- Properties. Each is a name that Spin prints when it is broken. */

hidden byte at_most_one_outcome, one_ballot_one_outcome, shown_is_chosen, recorded_is_never_forgotten, without_effect_stays_so,
	tokens_increase, one_holder, no_grant_after_outcome, majority_is_seen, told_as_chosen;

#define must(property, condition) property = (condition); assert(property)

/* -------- Counting. */

#define count(x, s) (x(s, 0) + x(s, 1) + x(s, 2))
#define is_granted(s, n) (session[s].link[n].heard == GRANTED)
#define has_granted(s, n) (session[s].link[n].heard == GRANTED || session[s].link[n].heard == PROMISED)
#define has_promised(s, n) (has_granted(s, n) || (session[s].link[n].heard == DONE && session[s].link[n].promised))
#define is_done(s, n) (session[s].link[n].heard == DONE)
#define is_renewed(s, n) (session[s].link[n].heard == RENEWED)
#define is_recorded(s, n) (session[s].link[n].heard == RECORDED)
#define is_heard(s, n) (session[s].link[n].heard != NO_ANSWER)
#define is_against(s, n) (session[s].link[n].heard != NO_ANSWER && session[s].link[n].heard != RECORDED)
#define shows_ours(s, n) (is_recorded(s, n) || (is_done(s, n) && session[s].link[n].outcome == session[s].offer))

/* Answers that show an outcome accepted at ballot b, not copied. */
#define accepted_at(s, n, b) (is_done(s, n) && session[s].link[n].accepted == (b) && !session[s].link[n].copied)
#define holders(s, b) (accepted_at(s, 0, b) + accepted_at(s, 1, b) + accepted_at(s, 2, b))
#define above(s, n, b) (is_done(s, n) && session[s].link[n].accepted > (b))
/* An outcome is chosen where a majority shows it at one ballot, whatever larger ballots a minority shows. */
#ifdef NO_TALLY
#define tallied(s, b) (holders(s, b) >= MAJORITY && !above(s, 0, b) && !above(s, 1, b) && !above(s, 2, b))
#else
#define tallied(s, b) (holders(s, b) >= MAJORITY)
#endif
#if BALLOTS == 2
#define any_tallied(s) (tallied(s, 1) || tallied(s, 2))
#elif BALLOTS == 3
#define any_tallied(s) (tallied(s, 1) || tallied(s, 2) || tallied(s, 3))
#endif

/* The same of what the nodes hold at this moment. */
#define holds_at(n, b) (record[n].state == COMPLETED && record[n].accepted == (b) && !record[n].copied)
#define holding(b) (holds_at(0, b) + holds_at(1, b) + holds_at(2, b))
#define holds_above(n, b) (record[n].state == COMPLETED && record[n].accepted > (b))
#ifdef NO_TALLY
#define seen_by_all(b) (!holds_above(0, b) && !holds_above(1, b) && !holds_above(2, b))
#else
#define seen_by_all(b) 1
#endif

#define relies_on(s, n) (session[s].valid && (session[s].relies & (1 << (n))))
#if SESSIONS == 2
#define somebody_relies_on(n) (relies_on(0, n) || relies_on(1, n))
#define owner_relies_on(n) ((record[n].owner == 1 && relies_on(0, n)) || (record[n].owner == 2 && relies_on(1, n)))
#define holders_besides(s) ((s != 0 && session[0].valid) + (s != 1 && session[1].valid))
#define at_session(o) (o == 1 || o == 2)
#elif SESSIONS == 3
#define somebody_relies_on(n) (relies_on(0, n) || relies_on(1, n) || relies_on(2, n))
#define owner_relies_on(n) ((record[n].owner == 1 && relies_on(0, n)) || (record[n].owner == 2 && relies_on(1, n)) || (record[n].owner == 3 && relies_on(2, n)))
#define holders_besides(s) ((s != 0 && session[0].valid) + (s != 1 && session[1].valid) + (s != 2 && session[2].valid))
#endif

#ifdef SYMMETRY
/*
 * Nodes are alike, so states that differ by their names alone are one: after a step the nodes are put in an order of their own. Only for
 * searches that are to find nothing: in a story nodes should keep their names.
 */
c_code {
	static int lower(int a, int b) {
		int s, order = memcmp(&now.record[a], &now.record[b], sizeof(now.record[a]));
		for (s = 0; order == 0 && s < SESSIONS; s++)
			order = memcmp(&now.session[s].link[a], &now.session[s].link[b], sizeof(now.session[s].link[a]));
		for (s = 0; order == 0 && s < SESSIONS; s++)
			order = ((now.session[s].relies >> a) & 1) - ((now.session[s].relies >> b) & 1);
		for (s = 0; order == 0 && s <= BALLOTS; s++)
			order = ((now.acceptors[s] >> a) & 1) - ((now.acceptors[s] >> b) & 1);
#ifdef READS
		if (order == 0) order = memcmp(&now.reading.seen[a], &now.reading.seen[b], sizeof(now.reading.seen[a]));
		if (order == 0) order = memcmp(&now.helping.link[a], &now.helping.link[b], sizeof(now.helping.link[a]));
#endif
		if (order == 0) order = now.member[a] - now.member[b];
		if (order == 0) order = now.nonce[a] - now.nonce[b];
		return order < 0;
	}
	static int other_name(int n, int a, int b) { return n == a ? b : n == b ? a : n; }
	static int exchanged(int bits, int a, int b) {
		int x = ((bits >> a) ^ (bits >> b)) & 1;
		return bits ^ ((x << a) | (x << b));
	}
	static void exchange(int a, int b) {
		int s;
		struct Record r = now.record[a];
		now.record[a] = now.record[b]; now.record[b] = r;
		for (s = 0; s < SESSIONS; s++) {
			struct Link l = now.session[s].link[a];
			now.session[s].link[a] = now.session[s].link[b]; now.session[s].link[b] = l;
			now.session[s].relies = exchanged(now.session[s].relies, a, b);
		}
		for (s = 0; s <= BALLOTS; s++) now.acceptors[s] = exchanged(now.acceptors[s], a, b);
#ifdef READS
		struct Seen seen = now.reading.seen[a];
		now.reading.seen[a] = now.reading.seen[b]; now.reading.seen[b] = seen;
		struct Accept help = now.helping.link[a];
		now.helping.link[a] = now.helping.link[b]; now.helping.link[b] = help;
#endif
		s = now.member[a]; now.member[a] = now.member[b]; now.member[b] = s;
		s = now.nonce[a]; now.nonce[a] = now.nonce[b]; now.nonce[b] = s;
#if REJOINS > 0
		for (s = 0; s < REJOINS; s++) {
			if (now.rejoin[s].stage != READY) now.rejoin[s].target = other_name(now.rejoin[s].target, a, b);
			if (now.rejoin[s].stage == HEARD) now.rejoin[s].first = other_name(now.rejoin[s].first, a, b);
		}
#endif
	}
	static void put_in_order(void) {
		if (lower(1, 0)) exchange(0, 1);
		if (lower(2, 1)) exchange(1, 2);
		if (lower(1, 0)) exchange(0, 1);
	}
};
#define in_order c_code { put_in_order(); }
#define may_use(n) 1
#define use(n) skip
#else
#define in_order skip
/* Nodes are alike until one is used: so the first one used is node 0, the second one node 1. */
byte used;
#define may_use(n) ((n) <= used)
#define use(n) if :: (n) == used && used < N -> used = used + 1 :: else -> skip fi
#endif

hidden byte k;
hidden byte best;
hidden byte bits;

/* -------- What the judge writes down. */

/* Node n has accepted: the outcome and the ballot are those that its record shows. */
inline accepted_by(n) {
	best = record[n].accepted;
	must(one_ballot_one_outcome, value_of[best] == 0 || value_of[best] == record[n].outcome);
	value_of[best] = record[n].outcome;
	if
	:: member[n] == VOTING -> acceptors[best] = acceptors[best] | (1 << n)
	:: else -> skip
	fi;
	bits = acceptors[best];
	if
	:: (bits & 1) + ((bits >> 1) & 1) + ((bits >> 2) & 1) >= MAJORITY -> choose(record[n].outcome)
	:: else -> skip
	fi
}

inline choose(result) {
	must(at_most_one_outcome, chosen == 0 || chosen == result);
	if
	:: !session[result - 1].surely_without -> skip
	:: else -> must(without_effect_stays_so, 0)
	fi;
	chosen = result
}

inline shown_to(result) {
	must(at_most_one_outcome, shown == 0 || shown == result);
	must(shown_is_chosen, chosen == result);
	shown = result
}

inline without_effect(s) {
	must(without_effect_stays_so, chosen != own_outcome(s));
	session[s].surely_without = 1
}

inline holds_no_more(s) {
	session[s].valid = 0;
#ifdef READS
	if :: reading.held == s + 1 -> reading.held = 0; blur() :: else -> skip fi
#endif
}

inline hold(s) {
	must(one_holder, holders_besides(s) == 0);
	session[s].valid = 1
}

inline forget_answer(s, n) {
	session[s].link[n].heard = NO_ANSWER; session[s].link[n].accepted = 0; session[s].link[n].outcome = 0;
	session[s].link[n].copied = 0; session[s].link[n].promised = 0
}

inline forget_answers(s) {
	forget_answer(s, 0); forget_answer(s, 1); forget_answer(s, 2)
}

/* Only of a node that votes is the answer counted. */
inline hear(s, n) {
	if
	:: member[n] == VOTING ->
		session[s].link[n].heard = said;
		if
		:: said == DONE ->
			session[s].link[n].accepted = record[n].accepted; session[s].link[n].outcome = record[n].outcome;
			session[s].link[n].copied = record[n].copied; session[s].link[n].promised = said_promised
		:: said == HELD || said == MISMATCH || said == STALE || said == LOST -> session[s].link[n].heard = FENCED
		:: else -> skip
		fi
	:: else -> skip
	fi
}

#ifdef READS
#include "reader.pml"
#endif

/*
 * Fewer states, the same behaviour. Once nothing is forgotten any more, a fence only rises: a message below it changes nothing ever
 * again, and where nobody waits for the answer it may as well be gone.
 */
#define below(s, n) (session[s].ballot < record[n].fence)
#if LATE < 99
#define count_late(s) if :: session[s].phase == ENDED -> late = late + 1 :: else -> skip fi
#else
#define count_late(s) skip
#endif
inline drop(s, n) {
	if
	:: session[s].phase == ENDED && (late == LATE || (wipes == WIPES && below(s, n))) ->
		session[s].link[n].claim = 0; session[s].link[n].renew = 0; session[s].link[n].complete = 0;
		session[s].link[n].learn = 0; session[s].link[n].release = 0
	:: else -> skip
	fi
}
#define waits(s, n) (session[s].link[n].claim || session[s].link[n].renew || session[s].link[n].complete || session[s].link[n].release || session[s].link[n].learn)
inline lay_aside(s) {
	if
	:: session[s].phase == ENDED && !waits(s, 0) && !waits(s, 1) && !waits(s, 2) ->
		session[s].ballot = 0; session[s].offer = 0; session[s].learnt = 0; session[s].offers = 0; session[s].renewals = 0
	:: else -> skip
	fi
}
inline tidy() {
	k = 0;
	do
	:: k < SESSIONS ->
		drop(k, 0); drop(k, 1); drop(k, 2);
		lay_aside(k);
		k = k + 1
	:: else -> break
	od;
	k = 0;
#ifdef READS
	tidy_help()
#endif
}

/* -------- A message is carried out. */

inline do_claim(s, n) {
	use(n);
	session[s].link[n].claim = 0; count_late(s);
	on_claim(record[n], session[s].ballot, owner_of(s), content_of(s));
	printf("node %d carries out claim of session %d, ballot %d: %d (fence %d)\n", n, s, session[s].ballot, said, record[n].fence)
}

inline do_renew(s, n) {
	session[s].link[n].renew = 0; count_late(s);
	on_renew(record[n], session[s].ballot, owner_of(s), content_of(s), 1, 0);
	printf("node %d carries out renewal of session %d, ballot %d: %d\n", n, s, session[s].ballot, said)
}

inline do_complete(s, n) {
	use(n);
	session[s].link[n].complete = 0; count_late(s);
	if
	:: session[s].offer == s + 1 -> on_complete(record[n], session[s].ballot, owner_of(s), content_of(session[s].offer - 1), 1, session[s].offer)
	/* It is another session's: adopted. */
	:: else -> on_learn(record[n], session[s].ballot, owner_of(s), content_of(session[s].offer - 1), 1, session[s].ballot, session[s].offer)
	fi;
	printf("node %d carries out completion of session %d, ballot %d, outcome %d: %d\n", n, s, session[s].ballot, session[s].offer, said);
	if
	:: accepts -> accepted_by(n)
	:: else -> skip
	fi
}

inline do_learn(s, n) {
	session[s].link[n].learn = 0; count_late(s);
#ifdef NO_LEARN
	on_complete(record[n], session[s].ballot, owner_of(s), content_of(session[s].offer - 1), 1, session[s].offer);
#else
	on_learn(record[n], session[s].ballot, owner_of(s), content_of(session[s].offer - 1), 1, session[s].learnt, session[s].offer);
#endif
	printf("node %d is told by session %d that outcome %d is chosen at ballot %d: accepted %d\n", n, s, session[s].offer, session[s].learnt, record[n].accepted);
	if
	:: accepts ->
		must(told_as_chosen, record[n].accepted == session[s].learnt);
		accepted_by(n)
	:: else -> skip
	fi
}

inline do_release(s, n) {
	session[s].link[n].release = 0; count_late(s);
	/* A session that gives up has renewed nothing, and no other call of it has: a withdrawal is a release. */
	on_release(record[n], session[s].ballot, owner_of(s), 0);
	printf("node %d carries out release of session %d, ballot %d: %d\n", n, s, session[s].ballot, said)
}

inline begin(s) {
	session[s].phase = CLAIMING;
	session[s].link[0].claim = 1; session[s].link[1].claim = 1; session[s].link[2].claim = 1;
	printf("session %d claims with ballot %d\n", s, session[s].ballot)
}

inline send_complete(s) {
	session[s].link[0].complete = 1; session[s].link[1].complete = 1; session[s].link[2].complete = 1
}

inline end(s) {
	forget_answers(s);
	session[s].phase = ENDED;
	tidy();
	in_order
}

/* To whoever granted, and to whoever may have. */
inline give_up(s) {
	session[s].link[0].release = has_granted(s, 0) || !is_heard(s, 0);
	session[s].link[1].release = has_granted(s, 1) || !is_heard(s, 1);
	session[s].link[2].release = has_granted(s, 2) || !is_heard(s, 2);
	printf("session %d gives up, and releases\n", s);
	end(s)
}

inline duplicate(s, b) {
	session[s].offer = value_of[b]; session[s].learnt = b;
	printf("session %d is a duplicate: outcome %d is chosen at ballot %d\n", s, session[s].offer, b);
	shown_to(value_of[b]);
	session[s].link[0].learn = has_granted(s, 0);
	session[s].link[1].learn = has_granted(s, 1);
	session[s].link[2].learn = has_granted(s, 2);
	end(s)
}

/* The outcome with the largest ballot among the answers, under the session's own ballot. */
inline take_over_outcome(s) {
	best = 0; k = 0;
	do
	:: k < N ->
		if
		:: is_done(s, k) && session[s].link[k].accepted > best -> best = session[s].link[k].accepted; session[s].offer = session[s].link[k].outcome
		:: else -> skip
		fi;
		k = k + 1
	:: else -> k = 0; break
	od;
	printf("session %d adopts outcome %d of ballot %d under ballot %d\n", s, session[s].offer, best, session[s].ballot);
	forget_answers(s);
	send_complete(s);
	session[s].phase = ADOPTING
}

/* -------- The sessions, and their messages on the way. */

/*
 * An answer that is lost tells its session nothing, as one that is still to come: so it is a step of its own only where it
 * would have kept the session from what it does next.
 */
#define claim_arrives(n) \
	:: d_step { session[s].link[n].claim && may_use(n) -> do_claim(s, n); if :: session[s].phase == CLAIMING -> hear(s, n) :: else -> skip fi; tidy(); in_order } \
	:: d_step { session[s].link[n].claim && may_use(n) && session[s].phase == CLAIMING && record[n].state == COMPLETED -> \
		do_claim(s, n); printf("  (the answer is lost)\n"); tidy(); in_order }
#define renewal_arrives(n) \
	:: d_step { session[s].link[n].renew -> do_renew(s, n); if :: session[s].renewing && session[s].phase == HOLDING -> hear(s, n) :: else -> skip fi; tidy(); in_order }
#define complete_arrives(n) \
	:: d_step { session[s].link[n].complete && may_use(n) -> do_complete(s, n); if :: session[s].phase == COMPLETING || session[s].phase == ADOPTING -> hear(s, n) :: else -> skip fi; tidy(); in_order }
#define learn_arrives(n) :: d_step { session[s].link[n].learn -> do_learn(s, n); tidy(); in_order }
#define release_arrives(n) :: d_step { session[s].link[n].release -> do_release(s, n); tidy(); in_order }

#if SESSIONS == 2
#define claiming ((session[0].phase == CLAIMING) + (session[1].phase == CLAIMING))
#else
#define claiming ((session[0].phase == CLAIMING) + (session[1].phase == CLAIMING) + (session[2].phase == CLAIMING))
#endif
#define begins :: d_step { session[s].phase == IDLE && (s == 0 || session[s - 1].phase != IDLE) && claiming < RACERS -> begin(s) }
#define is_duplicate(b) :: d_step { session[s].phase == CLAIMING && tallied(s, b) -> duplicate(s, b) }
/* A completion that was refused finds another outcome, or its own under another ballot, on a majority. */
#define is_settled(b) :: d_step { session[s].phase == COMPLETING && tallied(s, b) -> \
		printf("session %d finds outcome %d chosen at ballot %d\n", s, value_of[b], b); \
		shown_to(value_of[b]); \
		if :: value_of[b] != session[s].offer -> without_effect(s) :: else -> skip fi; \
		holds_no_more(s); end(s) }

#ifdef NO_REFUSALS
/* As it was: refused by a majority passed for "without effect". */
#define is_without_effect (count(is_against, s) >= MAJORITY && !any_tallied(s))
#else
#define is_without_effect (count(is_heard, s) == N && count(shows_ours, s) == 0)
#endif

proctype Claimant(byte s) {
	do
	begins
	claim_arrives(0)
	claim_arrives(1)
	claim_arrives(2)

	/* Granted: by a majority, and nobody shows an outcome. */
	:: d_step { session[s].phase == CLAIMING && count(is_granted, s) >= MAJORITY && count(is_done, s) == 0 ->
		printf("session %d is granted ballot %d\n", s, session[s].ballot);
		must(tokens_increase, session[s].ballot > last_granted);
		must(no_grant_after_outcome, shown == 0);
		last_granted = session[s].ballot;
		hold(s);
		session[s].relies = is_granted(s, 0) | (is_granted(s, 1) << 1) | (is_granted(s, 2) << 2);
		forget_answers(s);
		session[s].phase = HOLDING }
	is_duplicate(1)
	is_duplicate(2)
#if BALLOTS > 2
	is_duplicate(3)
#endif
	/* Fewer than a majority hold an outcome, and a majority has promised: that outcome is written again, under our ballot. */
	:: d_step { session[s].phase == CLAIMING && count(is_done, s) > 0 && !any_tallied(s) && count(has_promised, s) >= MAJORITY ->
		take_over_outcome(s) }
#ifndef NO_GIVING_UP
	:: d_step { session[s].phase == CLAIMING -> give_up(s) }
#endif

	complete_arrives(0)
	complete_arrives(1)
	complete_arrives(2)
	:: d_step { session[s].phase == ADOPTING && count(is_recorded, s) >= MAJORITY ->
		printf("session %d has adopted outcome %d\n", s, session[s].offer);
		shown_to(session[s].offer);
		end(s) }
	:: d_step { session[s].phase == ADOPTING -> end(s); printf("session %d gives up adopting\n", s) }

	/* What a holder does. */
	:: d_step { session[s].valid -> holds_no_more(s); session[s].relies = 0; printf("the lease of session %d is over\n", s) }
#ifndef NO_OUTCOMES
	:: d_step { session[s].phase == HOLDING ->
		session[s].offer = own_outcome(s); session[s].offers = 1; session[s].renewing = 0;
		forget_answers(s); send_complete(s);
		session[s].phase = COMPLETING;
		printf("session %d completes with outcome %d\n", s, session[s].offer) }
#endif
	:: d_step { session[s].phase == HOLDING ->
		holds_no_more(s); session[s].relies = 0; session[s].renewing = 0;
		session[s].link[0].release = 1; session[s].link[1].release = 1; session[s].link[2].release = 1;
		printf("session %d releases\n", s);
		end(s) }
#if RENEWALS > 0
	:: d_step { session[s].phase == HOLDING && !session[s].renewing && session[s].renewals < RENEWALS ->
		session[s].renewals = session[s].renewals + 1; session[s].renewing = 1;
		session[s].link[0].renew = 1; session[s].link[1].renew = 1; session[s].link[2].renew = 1 }
	renewal_arrives(0)
	renewal_arrives(1)
	renewal_arrives(2)
	:: d_step { session[s].phase == HOLDING && session[s].renewing && count(is_renewed, s) >= MAJORITY ->
		printf("session %d has renewed\n", s);
		must(no_grant_after_outcome, shown == 0);
		hold(s);
#if defined(READS) && !defined(AT_ONCE)
		/* It may rest on other nodes from now on. */
		if :: reading.held == s + 1 -> reading.held = 0; blur() :: else -> skip fi;
#endif
		session[s].relies = is_renewed(s, 0) | (is_renewed(s, 1) << 1) | (is_renewed(s, 2) << 2);
		session[s].renewing = 0;
		forget_answers(s) }
#endif

	/* What becomes of an outcome. */
	:: d_step { session[s].phase == COMPLETING && count(is_recorded, s) >= MAJORITY ->
		printf("session %d is told: recorded\n", s);
		shown_to(session[s].offer);
		holds_no_more(s); session[s].relies = 0; end(s) }
	is_settled(1)
	is_settled(2)
#if BALLOTS > 2
	is_settled(3)
#endif
	:: d_step { session[s].phase == COMPLETING && is_without_effect ->
		printf("session %d is told: fenced, surely without effect\n", s);
		without_effect(s);
		holds_no_more(s); session[s].relies = 0; end(s) }
#if OFFERS > 1
	/* Not known: it is offered again, to those that have not answered. */
	:: d_step { session[s].phase == COMPLETING && session[s].offers < OFFERS ->
		session[s].offers = session[s].offers + 1;
		forget_answers(s); send_complete(s);
		printf("session %d offers its outcome again\n", s) }
#endif
	:: d_step { session[s].phase == COMPLETING -> holds_no_more(s); session[s].relies = 0; end(s); printf("session %d does not know\n", s) }

	learn_arrives(0)
	learn_arrives(1)
	learn_arrives(2)
	release_arrives(0)
	release_arrives(1)
	release_arrives(2)
	od
}

/* -------- Time: leases expire. Not while a holder relies on this very node. */

inline expire(s, n) {
	if
	:: session[s].link[n].heard == GRANTED && session[s].ballot == record[n].fence -> session[s].link[n].heard = PROMISED
	:: session[s].link[n].heard == RENEWED && session[s].ballot == record[n].fence -> session[s].link[n].heard = NO_ANSWER
	:: else -> skip
	fi
}

#define expires(n) \
	:: d_step { record[n].state == CLAIMED && record[n].live && !owner_relies_on(n) -> \
		record[n].live = 0; \
		if :: record[n].owner > 0 -> k = record[n].owner - 1; expire(k, n); k = 0 :: else -> skip fi; \
		printf("the lease on node %d expires\n", n); in_order }

active proctype Time() {
	do
	expires(0)
	expires(1)
	expires(2)
	od
}

/* -------- Nodes that forget, and that are brought back. */

#if WIPES > 0
inline forget(n) {
	use(n);
	wipes = wipes + 1; nonce[n] = nonce[n] + 1; member[n] = FORGOT;
	erase(record[n]);
	printf("node %d forgets everything\n", n);
	in_order
}

/* Every lease that counted on this node is over, and so is the time for which an answer of it counts. */
inline outlast(s, n) {
	if
#ifdef NO_AGE
	:: session[s].link[n].heard == GRANTED || session[s].link[n].heard == PROMISED || session[s].link[n].heard == RENEWED ->
#else
	:: session[s].link[n].heard != NO_ANSWER ->
#endif
		forget_answer(s, n)
	:: else -> skip
	fi
}

inline outlast_all(n) {
	k = 1;
	do
	:: k <= BALLOTS -> acceptors[k] = acceptors[k] & (7 - (1 << n)); k = k + 1
	:: else -> k = 0; break
	od;
	member[n] = LEARNING;
	outlast(0, n); outlast(1, n);
#if SESSIONS > 2
	outlast(2, n);
#endif
#ifdef READS
	unsee(n);
	if :: seen_count == 0 -> stop_reading() :: else -> skip fi;
#ifdef NO_ASKING_AGAIN
	if :: helping.link[n].seen -> skip :: else -> forget_accept(n) fi;
#else
	forget_accept(n);
#endif
#endif
	printf("the quarantine of node %d is over\n", n);
	in_order
}

#define forgets(n) \
	:: d_step { wipes < WIPES && may_use(n) && member[0] == VOTING && member[1] == VOTING && member[2] == VOTING -> forget(n) }
#define quarantine_ends(n) :: d_step { member[n] == FORGOT && !somebody_relies_on(n) -> outlast_all(n) }

active proctype Amnesia() {
	do
	forgets(0)
	forgets(1)
	forgets(2)
	quarantine_ends(0)
	quarantine_ends(1)
	quarantine_ends(2)
	od
}

/* One that brings nodes back: it hears a majority of voting nodes, one after the other, and tells the node that forgot. */
#define looks(n, j) \
	:: d_step { rejoin[e].stage == READY && member[n] == LEARNING && member[j] == VOTING && may_use(j) && may_use(n) -> \
		rejoin[e].stage = HEARD; rejoin[e].target = n; rejoin[e].nonce = nonce[n]; rejoin[e].first = j; \
		copy_record(rejoin[e].sight, record[j]); \
		printf("rejoin %d: node %d shows its record (state %d)\n", e, j, record[j].state) }

#define looks_again(j, t) \
	:: d_step { rejoin[e].stage == HEARD && j != rejoin[e].target && j != rejoin[e].first && member[j] == VOTING -> \
		rejoin[e].chosen = rejoin[e].sight.state == COMPLETED && record[j].state == COMPLETED && !rejoin[e].sight.copied && !record[j].copied \
			&& rejoin[e].sight.accepted == record[j].accepted; \
		merge(rejoin[e].sight, record[j], t); \
		rejoin[e].sight.copied = rejoin[e].sight.state == COMPLETED && !rejoin[e].chosen && rejoin[e].sight.fence != rejoin[e].sight.accepted; \
		rejoin[e].stage = MERGED; rejoin[e].first = 0; \
		printf("rejoin %d: node %d shows its record (state %d); both: state %d, fence %d\n", e, j, record[j].state, rejoin[e].sight.state, rejoin[e].sight.fence) }

#define stands(e, n) (member[n] == LEARNING && nonce[n] == rejoin[e].nonce)
#ifdef NO_NONCE
#define listens(e, n) 1
#else
#define listens(e, n) stands(e, n)
#endif

inline tell(e, n, t) {
	best = (record[n].state == COMPLETED && !record[n].copied) * record[n].accepted;
	on_adopt(record[n], rejoin[e].sight, rejoin[e].chosen, t);
	printf("rejoin %d: node %d is told: state %d, fence %d, owner %d\n", e, n, record[n].state, record[n].fence, record[n].owner);
	if
	:: member[n] == VOTING && record[n].state == COMPLETED && !record[n].copied && record[n].accepted != best -> accepted_by(n)
	:: else -> skip
	fi;
	erase(rejoin[e].sight); rejoin[e].chosen = 0;
	rejoin[e].stage = TOLD;
	in_order
}

proctype Rejoining(byte e) {
	do
	looks(0, 1) looks(0, 2) looks(1, 0) looks(1, 2) looks(2, 0) looks(2, 1)
	looks_again(0, 0) looks_again(1, 0) looks_again(2, 0)
#if TIES
	looks_again(0, 1) looks_again(1, 1) looks_again(2, 1)
#endif
	:: d_step { rejoin[e].stage == MERGED && listens(e, rejoin[e].target) -> tell(e, rejoin[e].target, 0) }
	:: d_step { rejoin[e].stage == TOLD && stands(e, rejoin[e].target) ->
		member[rejoin[e].target] = VOTING;
		printf("rejoin %d: node %d votes again\n", e, rejoin[e].target);
		if
		:: record[rejoin[e].target].state == COMPLETED && !record[rejoin[e].target].copied -> accepted_by(rejoin[e].target)
		:: else -> skip
		fi;
		rejoin[e].stage = READY; rejoin[e].target = 0; rejoin[e].nonce = 0; in_order }
	/* The node forgot again, or another one has brought it back. */
	:: d_step { rejoin[e].stage != READY && !stands(e, rejoin[e].target) && rejoin[e].stage != MERGED ->
		erase(rejoin[e].sight); rejoin[e].chosen = 0;
		rejoin[e].stage = READY; rejoin[e].target = 0; rejoin[e].nonce = 0; rejoin[e].first = 0 }
	od
}
#endif

/* -------- What must hold in every state. */

/* Whoever shows an outcome rejoined with what a majority remembers. */
#define remembers(n) (record[n].state == COMPLETED && record[n].outcome == shown)
#define forgotten(n, m) (member[n] == VOTING && member[m] == VOTING && !remembers(n) && !remembers(m))

active proctype Judge() {
	do
	:: d_step { shown != 0 && (forgotten(0, 1) || forgotten(0, 2) || forgotten(1, 2)) ->
		must(recorded_is_never_forgotten, 0) }
	:: d_step { (holding(1) >= MAJORITY && !seen_by_all(1)) || (holding(2) >= MAJORITY && !seen_by_all(2)) ->
		must(majority_is_seen, 0) }
	od
}

/* Only the order of ballots counts. Two sessions may have chosen the same one. */

init {
	atomic {
		if
#if SESSIONS == 2
		:: session[0].ballot = 1; session[1].ballot = 2
		:: session[0].ballot = 2; session[1].ballot = 1
#ifndef NO_TIES
		:: session[0].ballot = 1; session[1].ballot = 1
#endif
#else
		:: session[0].ballot = 1; session[1].ballot = 2; session[2].ballot = 3
#ifndef ASCENDING
		:: session[0].ballot = 1; session[1].ballot = 3; session[2].ballot = 2
		:: session[0].ballot = 2; session[1].ballot = 1; session[2].ballot = 3
		:: session[0].ballot = 2; session[1].ballot = 3; session[2].ballot = 1
		:: session[0].ballot = 3; session[1].ballot = 1; session[2].ballot = 2
		:: session[0].ballot = 3; session[1].ballot = 2; session[2].ballot = 1
#endif
#ifndef NO_TIES
		:: session[0].ballot = 1; session[1].ballot = 1; session[2].ballot = 1
		:: session[0].ballot = 1; session[1].ballot = 1; session[2].ballot = 2
		:: session[0].ballot = 1; session[1].ballot = 2; session[2].ballot = 1
		:: session[0].ballot = 2; session[1].ballot = 1; session[2].ballot = 1
		:: session[0].ballot = 2; session[1].ballot = 2; session[2].ballot = 1
		:: session[0].ballot = 2; session[1].ballot = 1; session[2].ballot = 2
		:: session[0].ballot = 1; session[1].ballot = 2; session[2].ballot = 2
#endif
#endif
		fi;
		run Claimant(0);
		run Claimant(1);
#if SESSIONS > 2
		run Claimant(2);
#endif
#if REJOINS > 0
		run Rejoining(0);
#endif
#if REJOINS > 1
		run Rejoining(1);
#endif
	}
}
