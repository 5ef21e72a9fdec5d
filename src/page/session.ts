/** Who reads the page, and the calls that are made in that name; gone with the tab. */

import type { Api } from './api.ts'
import type { Operator } from './shapes.ts'

export type Session = { readonly api: Api; readonly operator: Operator }
