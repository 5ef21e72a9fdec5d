/** Tokens of successive holders strictly increase, while nodes are stopped and started one at a time; `TOKEN_ACQUISITIONS=10000` makes it more of them. */
import { testOfTokens } from './tokens-of-holders.ts'

testOfTokens(Number(process.env.TOKEN_ACQUISITIONS ?? 600))
