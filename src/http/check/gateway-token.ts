/** The token of a gateway, where the configuration requires one. */

import type { Problem } from '../message/problems.ts'

export const TOKEN_HEADER = 'fencepost-gateway-token'

export const TOKEN_REQUIRED: Problem = {
  code: 'token-required',
  detail: 'Send the token as Fencepost-Gateway-Token.',
}
