/** Tokens of successive holders strictly increase, while nodes are stopped and started one at a time: a slice of `reservation-tokens.long.test.ts`. */
import { testOfTokens } from './tokens-of-holders.ts'

testOfTokens(160)
