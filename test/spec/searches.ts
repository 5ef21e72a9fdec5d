/**
 * Which searches are made of the specification, and what each must come to. Data.
 *
 * A search without `breaks` must end with every state looked at and nothing broken. One with `breaks` has a rule taken out, and must
 * find the property of that name broken: a specification in which nothing can go wrong proves nothing.
 */

export type Search = {
  readonly name: string
  /** What it is about, for a reader of the table. */
  readonly about: string
  /** Sizes and rules of spec/record.pml; see its head. */
  readonly defines: readonly string[]
  /** The property that must be found broken. */
  readonly breaks?: string
  /** No path longer than this is looked at: where something is to be found, a short story is. */
  readonly depth?: number
  /** Only by its name, or with --long. */
  readonly long?: true
  /** Of every test run; the others, but for `long` ones, are in `spec.long.test.ts`. */
  readonly slice?: true
}

const TWO = ['SESSIONS=2', 'BALLOTS=2']
const THREE = ['SESSIONS=3', 'BALLOTS=3', 'NO_TIES']
const READING = [...TWO, 'NO_TIES', 'RACERS=1', 'LATE=0', 'READS']
const FORGETTING = ['WIPES=1', 'REJOINS=1', 'NO_TIES']

export const SEARCHES: readonly Search[] = [
  {
    name: 'two sessions',
    about: 'two claims of one key, also with the same token; every message as late as it likes',
    defines: [...TWO, 'SYMMETRY'],
    slice: true,
  },
  {
    name: 'two contents',
    about: 'the same, of two different requests',
    defines: [...TWO, 'SYMMETRY', 'CONTENTS=2'],
  },
  {
    name: 'renewals',
    about: 'the same with a renewal of each lease, and releases instead of outcomes',
    defines: [...TWO, 'SYMMETRY', 'RENEWALS=1', 'LATE=1', 'NO_OUTCOMES'],
  },
  {
    name: 'offered twice',
    about: 'the same with outcomes that are offered again where nothing is known',
    defines: [...TWO, 'SYMMETRY', 'OFFERS=2'],
  },
  {
    name: 'amnesia',
    about: 'two sessions, and a node that forgets everything and is brought back',
    defines: [...TWO, ...FORGETTING, 'SYMMETRY', 'RACERS=1', 'LATE=0'],
  },
  {
    name: 'three sessions',
    about: 'three sessions, one claiming at a time, one message of an ended session carried out late',
    defines: [...THREE, 'SYMMETRY', 'RACERS=1', 'LATE=1'],
    long: true,
  },
  {
    name: 'three sessions, in time',
    about: 'three sessions, one claiming at a time, no message of an ended session',
    defines: [...THREE, 'ASCENDING', 'SYMMETRY', 'RACERS=1', 'LATE=0'],
  },
  {
    name: 'amnesia, late messages',
    about: 'two sessions that race, a node that forgets, one message of an ended session carried out late',
    defines: [...TWO, ...FORGETTING, 'SYMMETRY', 'LATE=1'],
    long: true,
  },
  {
    name: 'two rejoins',
    about: 'the same with two that bring the node back, beside each other',
    defines: [...TWO, 'WIPES=1', 'REJOINS=2', 'NO_TIES', 'SYMMETRY', 'RACERS=1', 'LATE=0'],
    long: true,
  },
  {
    name: 'reads',
    about:
      'two sessions, one claiming at a time, and any number of reads, of which one helps an outcome of a minority',
    defines: [...READING, 'SYMMETRY'],
  },
  {
    name: 'reads, renewals',
    about: 'reads, and a renewal of each lease, and releases instead of outcomes',
    defines: [...READING, 'RENEWALS=1', 'NO_OUTCOMES', 'SYMMETRY'],
  },
  {
    name: 'reads, late messages',
    about: 'reads, also with the same token, and with one message of an ended session carried out late',
    defines: [...TWO, 'RACERS=1', 'LATE=1', 'READS', 'SYMMETRY'],
    long: true,
  },
  {
    name: 'reads, amnesia',
    about: 'reads with different tokens, and a node that forgets everything and is brought back',
    defines: [...READING, 'WIPES=1', 'REJOINS=1', 'SYMMETRY'],
    long: true,
  },
  {
    name: 'a late telling counts',
    about: 'what a rejoin tells a node is carried out without a look at the nonce',
    defines: [
      ...THREE,
      'ASCENDING',
      'RACERS=1',
      'LATE=2',
      'WIPES=1',
      'REJOINS=2',
      'CONTENTS=2',
      'NO_OUTCOMES',
      'NO_GIVING_UP',
      'NO_NONCE',
    ],
    breaks: 'one_holder',
    depth: 45,
  },
  {
    name: 'an old answer counts',
    about: 'an answer that a node gave before it forgot is counted after it was brought back',
    defines: [...TWO, ...FORGETTING, 'LATE=0', 'NO_AGE'],
    breaks: 'shown_is_chosen',
    depth: 60,
  },
  {
    name: 'the largest ballot speaks',
    about: 'a majority at one ballot is not seen where a minority shows a larger one',
    defines: [...TWO, 'NO_TALLY'],
    breaks: 'majority_is_seen',
    depth: 60,
    slice: true,
  },
  {
    name: 'told under a larger ballot',
    about: 'a node that missed a chosen outcome is told of it under the ballot of who tells it',
    defines: [...TWO, 'NO_LEARN'],
    breaks: 'told_as_chosen',
    depth: 60,
  },
  {
    name: 'refused is without effect',
    about: 'a completion that a majority refused is called without effect, whatever the others did',
    defines: [...THREE, 'RACERS=1', 'LATE=3', 'NO_REFUSALS'],
    breaks: 'without_effect_stays_so',
    depth: 60,
  },
  {
    name: 'a minority is read as a claim',
    about: 'an outcome that a minority shows is read as the claim that it was',
    defines: [...READING, 'NO_SIGHTING'],
    breaks: 'reads_are_true',
    depth: 60,
    slice: true,
  },
  {
    name: 'silence is read as free',
    about: 'a read takes it that nodes that are silent hold no claim',
    defines: [...READING, 'NO_SILENCE'],
    breaks: 'reads_are_true',
    depth: 60,
  },
  {
    name: 'seen is counted as kept',
    about:
      'a node that showed a read the outcome counts for it when the others have accepted it, also if it forgot it meanwhile',
    defines: [...READING, 'WIPES=1', 'REJOINS=1', 'NO_ASKING_AGAIN'],
    breaks: 'shown_is_chosen',
    depth: 60,
  },
  {
    name: 'renewed while it is read',
    about: 'a lease that is renewed while it is read is demanded not to be called expired',
    defines: [...READING, 'RENEWALS=1', 'NO_OUTCOMES', 'AT_ONCE'],
    breaks: 'reads_are_true',
    depth: 60,
  },
  {
    name: 'equal tokens and a node that forgot',
    about: 'two sessions with the same token: what a node is told gives the promise to the other one',
    defines: [...TWO, 'WIPES=1', 'REJOINS=1', 'SYMMETRY', 'LATE=2'],
    breaks: 'tokens_increase',
    long: true,
  },
]
