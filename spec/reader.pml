/*
 * One that only looks: what it concludes from the records that nodes show (src/core/quorum/majority-read.ts), and how it helps an outcome of a
 * minority to a majority (leases.ts). Part of record.pml, with -DREADS.
 *
 * Nodes are asked one after the other, in every order, with everything else between two answers. A read may end with the answers of
 * any majority; of the others it heard nothing. It begins with its first answer and ends with its last one: to begin earlier or to end
 * later only allows it more. A read that helps nobody changes nothing, so any number of them is made, one after the other, also while messages of
 * one that helped are under way; HELPS says how many help.
 *
 * NO_SIGHTING: an outcome that a minority shows is read as the claim that it was. NO_SILENCE: nodes that are silent hold no claim.
 * Of a lease that is renewed while it is read nothing is demanded, but with AT_ONCE: then a read must be as if it had heard all nodes at one moment.
 * NO_ASKING_AGAIN: who showed the outcome counts for it, however long ago that was, and is not sent it again.
 */

#ifndef HELPS
#define HELPS 1
#endif

#define SAYS_UNKNOWN   0
#define SAYS_FREE      1
#define SAYS_HELD      2
#define SAYS_EXPIRED    3
#define SAYS_COMPLETED 4

typedef Seen { bool heard; byte state; byte fence; byte owner; bool live; byte accepted; bool copied };

typedef Reading {
	bool after_outcome;	/* ghost: it began after an outcome was shown or acknowledged */
	byte held;		/* ghost: 1 + whose lease has counted ever since it began; 0: nobody's */
	Seen seen[N]
};

typedef Accept { bool ask; byte heard; byte accepted; bool seen };

typedef Helping {
	byte helps;
	bool listening;
	byte ballot;
	byte owner;
	Accept link[N]
};

Reading reading;
Helping helping;

hidden byte reads_are_true;
hidden byte says;
hidden byte says_owner;
hidden byte standing;	/* 1 + a node that shows the claim of a majority; 0: none */
hidden byte several;
hidden byte unheard;
hidden byte sighted;	/* the largest ballot of an outcome that is seen; 0: none */
hidden byte i;

#define seen_at(n) reading.seen[n]
#define sum(x, y) (x(y, 0) + x(y, 1) + x(y, 2))
#define seen_count (seen_at(0).heard + seen_at(1).heard + seen_at(2).heard)
#define sees_claim(n) (seen_at(n).heard && seen_at(n).state == CLAIMED)
#define sees_outcome(n) (seen_at(n).heard && seen_at(n).state == COMPLETED)
#define sees_expired(n) (sees_claim(n) && (!seen_at(n).live || seen_at(n).owner == 0))
#define outcomes_seen (sees_outcome(0) + sees_outcome(1) + sees_outcome(2))
#define expired_seen (sees_expired(0) + sees_expired(1) + sees_expired(2))

#define sees_accepted(b, n) (sees_outcome(n) && seen_at(n).accepted == (b) && !seen_at(n).copied)
#define reads_chosen(b) (sum(sees_accepted, b) >= MAJORITY)
#if BALLOTS == 2
#define reads_a_chosen (reads_chosen(1) || reads_chosen(2))
#elif BALLOTS == 3
#define reads_a_chosen (reads_chosen(1) || reads_chosen(2) || reads_chosen(3))
#endif

/* Node m shows the claim of node n, or an outcome of it. */
#define same_claim(n, m) (sees_claim(m) && seen_at(m).fence == seen_at(n).fence && seen_at(m).owner == seen_at(n).owner)
#define outcome_of(n, m) (sees_outcome(m) && seen_at(m).accepted == seen_at(n).fence && (seen_at(m).fence != seen_at(m).accepted || seen_at(m).owner == seen_at(n).owner))
#define carries(n, m) (same_claim(n, m) || outcome_of(n, m))
#define same_and_live(n, m) (same_claim(n, m) && seen_at(m).live)
#define at_or_above(n, m) (seen_at(m).heard && seen_at(m).fence >= seen_at(n).fence)
#define same_owner(n, m) (sees_claim(m) && seen_at(m).owner == seen_at(n).owner)
#define may_be_held(n) (sees_claim(n) && !sees_expired(n) && sum(same_owner, n) + unheard >= MAJORITY)

inline unsee(n) {
	seen_at(n).heard = 0; seen_at(n).state = 0; seen_at(n).fence = 0; seen_at(n).owner = 0; seen_at(n).live = 0;
	seen_at(n).accepted = 0; seen_at(n).copied = 0
}

inline stop_reading() {
	unsee(0); unsee(1); unsee(2);
	reading.after_outcome = 0; reading.held = 0
}

inline begin_reading() {
	reading.after_outcome = (shown != 0);
	i = 0;
	do
	:: i < SESSIONS -> if :: session[i].valid -> reading.held = i + 1 :: else -> skip fi; i = i + 1
	:: else -> i = 0; break
	od
}

/* Fewer states, the same behaviour: where nothing that is said of claims could be wrong, it is all the same which of them are over. */
#define blur_one(n) \
	seen_at(n).live = 0; \
	if :: seen_at(n).state == RELEASED -> seen_at(n).state = ABSENT; seen_at(n).fence = 0 :: else -> skip fi
inline blur() {
	if
	:: reading.held == 0 && !reading.after_outcome -> blur_one(0); blur_one(1); blur_one(2)
	:: else -> skip
	fi
}

inline see(n) {
	use(n);
	if
	:: seen_count == 0 -> begin_reading()
	:: else -> skip
	fi;
	seen_at(n).heard = 1; seen_at(n).state = record[n].state; seen_at(n).fence = record[n].fence; seen_at(n).owner = record[n].owner;
	seen_at(n).live = record[n].live; seen_at(n).accepted = record[n].accepted; seen_at(n).copied = record[n].copied;
	blur();
	printf("node %d shows a reader its record (state %d, fence %d)\n", n, record[n].state, record[n].fence)
}

/* What is said contradicts nothing that was acknowledged before the read began, or all along while it was made. */
inline judge_read(what, who, result) {
	if
	:: what == SAYS_UNKNOWN -> printf("a read says: not known\n")
	:: what == SAYS_FREE -> printf("a read says: free\n")
	:: what == SAYS_HELD -> printf("a read says: held by session %d\n", who - 1)
	:: what == SAYS_EXPIRED -> printf("a read says: expired\n")
	:: what == SAYS_COMPLETED -> printf("a read says: completed with outcome %d\n", result)
	fi;
	must(reads_are_true, !reading.after_outcome || what == SAYS_UNKNOWN || (what == SAYS_COMPLETED && result == shown));
	must(reads_are_true, reading.held == 0 || what == SAYS_UNKNOWN || (what == SAYS_HELD && who == reading.held)
		|| (what == SAYS_COMPLETED && result == own_outcome(reading.held - 1))
		|| (what != SAYS_FREE && session[reading.held - 1].phase == COMPLETING));
	if
	:: what == SAYS_COMPLETED -> shown_to(result)
	:: else -> skip
	fi
}

/* The one claim that a majority shows. */
inline find_standing() {
	standing = 0; several = 0; i = 0;
	do
	:: i < N ->
		if
		:: sees_claim(i) && sum(carries, i) >= MAJORITY ->
			if
			:: standing == 0 -> standing = i + 1
			:: standing != 0 && !same_claim(standing - 1, i) -> several = 1
			:: else -> skip
			fi
		:: else -> skip
		fi;
		i = i + 1
	:: else -> i = 0; break
	od;
	if
	:: several -> standing = 0
	:: else -> skip
	fi
}

/* What is left of it: of a renewal that counted so many know that are no fewer than a majority without the silent ones and those that moved on. */
#define moved_on(n) (sum(at_or_above, n) - sum(same_claim, n))
#define is_live(n) ((MAJORITY - unheard - moved_on(n) <= 1 && sum(same_and_live, n) >= 1) \
	|| (MAJORITY - unheard - moved_on(n) >= 2 && sum(same_claim, n) == 1 && sum(same_and_live, n) >= 1) || sum(same_and_live, n) >= 2)

inline say_standing() {
	i = standing - 1;
	says_owner = seen_at(i).owner;
	if
	:: is_live(i) && says_owner != 0 -> says = SAYS_HELD
	:: else -> says = SAYS_EXPIRED
	fi;
	i = 0
}

inline say_without_claim() {
#ifdef NO_SILENCE
	unheard = 0;
#endif
	if
	:: may_be_held(0) || may_be_held(1) || may_be_held(2) -> says = SAYS_UNKNOWN
	:: else ->
		if
		:: expired_seen >= MAJORITY -> says = SAYS_EXPIRED
		:: expired_seen > 0 && expired_seen < MAJORITY && expired_seen + unheard >= MAJORITY -> says = SAYS_UNKNOWN
		:: else -> says = SAYS_FREE
		fi
	fi
}

/* -------- The message of its holder, again. */

#define forget_accept(n) helping.link[n].heard = NO_ANSWER; helping.link[n].accepted = 0; helping.link[n].seen = 0
#define asks (helping.link[0].ask || helping.link[1].ask || helping.link[2].ask)

inline tidy_help() {
	i = 0;
	do
	:: i < N ->
		if
		:: helping.link[i].ask && !helping.listening && wipes == WIPES && (helping.ballot < record[i].fence || holds_at(i, helping.ballot)) ->
			helping.link[i].ask = 0
		:: else -> skip
		fi;
		i = i + 1
	:: else -> i = 0; break
	od;
	if
	:: !asks -> helping.listening = 0
	:: else -> skip
	fi;
	if
	:: !helping.listening -> forget_accept(0); forget_accept(1); forget_accept(2)
	:: else -> skip
	fi;
	if
	:: !asks -> helping.ballot = 0; helping.owner = 0
	:: else -> skip
	fi
}

inline begin_help() {
	helping.helps = helping.helps + 1; helping.listening = 1; helping.ballot = sighted;
	i = 0;
	do
	:: i < N ->
		if
		:: seen_at(i).heard && (seen_at(i).state == CLAIMED || seen_at(i).state == COMPLETED) && seen_at(i).fence == sighted && helping.owner == 0 ->
			helping.owner = seen_at(i).owner
		:: else -> skip
		fi;
		if
#ifdef NO_ASKING_AGAIN
		:: sees_accepted(sighted, i) -> helping.link[i].heard = RECORDED; helping.link[i].seen = 1
#endif
		:: else -> helping.link[i].ask = 1
		fi;
		i = i + 1
	:: else -> i = 0; break
	od;
	printf("a reader helps outcome %d of ballot %d\n", value_of[sighted], sighted)
}

/* The very outcome under a larger ballot: adopted. */
#define has_voted(n) (helping.link[n].heard == RECORDED)
#define shows_adoption(b, n) (helping.link[n].heard == DONE && helping.link[n].accepted == (b) && (b) > helping.ballot && value_of[b] == value_of[helping.ballot])
#define is_adopted(b) (sum(shows_adoption, b) >= MAJORITY)
#if BALLOTS == 2
#define is_adopted_at_some (is_adopted(1) || is_adopted(2))
#elif BALLOTS == 3
#define is_adopted_at_some (is_adopted(1) || is_adopted(2) || is_adopted(3))
#endif

inline do_help(n) {
	use(n);
	helping.link[n].ask = 0;
	on_complete(record[n], helping.ballot, helping.owner, content_of(value_of[helping.ballot] - 1), 1, value_of[helping.ballot]);
	printf("node %d carries out a reader's completion, ballot %d, outcome %d: %d\n", n, helping.ballot, value_of[helping.ballot], said);
	if
	:: accepts -> accepted_by(n)
	:: else -> skip
	fi;
	if
	:: helping.listening && member[n] == VOTING && (said == RECORDED || (said == DONE && !record[n].copied)) ->
		helping.link[n].heard = said;
		if :: said == DONE -> helping.link[n].accepted = record[n].accepted :: else -> skip fi
	:: else -> skip
	fi;
	if
	:: helping.listening && (has_voted(0) + has_voted(1) + has_voted(2) >= MAJORITY || is_adopted_at_some) ->
		printf("a read has helped outcome %d to a majority, and says it\n", value_of[helping.ballot]);
		shown_to(value_of[helping.ballot]);
		helping.listening = 0
	:: else -> skip
	fi
}

/* -------- What the read says. */

inline find_sighted() {
	sighted = 0; i = 0;
	do
	:: i < N ->
		if
		:: sees_outcome(i) && seen_at(i).accepted > sighted -> sighted = seen_at(i).accepted
		:: else -> skip
		fi;
		i = i + 1
	:: else -> i = 0; break
	od
}

inline conclude_without_majority() {
	unheard = N - seen_count; says_owner = 0;
	find_sighted();
	find_standing();
	if
#ifndef NO_SIGHTING
	/* Acceptances at smaller ballots may lie under those that are shown: only where too few nodes have any is it surely not chosen. */
	:: sighted != 0 && (standing == 0 || outcomes_seen + unheard >= MAJORITY) -> standing = 0; says = SAYS_UNKNOWN
	:: standing != 0 && (sighted == 0 || outcomes_seen + unheard < MAJORITY) -> say_standing()
#else
	:: sighted != 0 && standing == 0 -> says = SAYS_UNKNOWN
	:: standing != 0 -> say_standing()
#endif
	:: sighted == 0 && standing == 0 -> say_without_claim()
	fi;
	/* What it says where it helps nobody, or in vain. */
	judge_read(says, says_owner, 0);
#ifndef NO_SIGHTING
	if
	:: sighted != 0 && helping.helps < HELPS && !asks && !(standing != 0 && seen_at(standing - 1).fence > sighted) -> begin_help()
	:: else -> skip
	fi
#endif
}

inline conclude() {
	if
	:: reads_chosen(1) -> judge_read(SAYS_COMPLETED, 0, value_of[1])
	:: !reads_chosen(1) && reads_chosen(2) -> judge_read(SAYS_COMPLETED, 0, value_of[2])
#if BALLOTS > 2
	:: !reads_chosen(1) && !reads_chosen(2) && reads_chosen(3) -> judge_read(SAYS_COMPLETED, 0, value_of[3])
#endif
	:: else -> conclude_without_majority()
	fi;
	stop_reading()
}

#define may_see(n) (!helping.listening && !seen_at(n).heard && member[n] == VOTING && may_use(n))
#define looks_at(n) :: d_step { may_see(n) && seen_count < N - 1 && !reads_a_chosen -> see(n); in_order }
#define looks_last_at(n) :: d_step { may_see(n) && seen_count >= MAJORITY - 1 && !reads_a_chosen -> see(n); conclude(); in_order }
#define help_arrives(n) :: d_step { helping.link[n].ask && may_use(n) -> do_help(n); tidy_help(); in_order }

active proctype Reader() {
	do
	looks_at(0)
	looks_at(1)
	looks_at(2)
	looks_last_at(0)
	looks_last_at(1)
	looks_last_at(2)
	help_arrives(0)
	help_arrives(1)
	help_arrives(2)
	/* Its answers are lost, or nobody waits for the read any more. */
	:: d_step { helping.listening -> helping.listening = 0; tidy_help(); printf("the read that helps gives up\n"); in_order }
	od
}
