/** Who reads the page, and the calls that are made in that name; gone with the tab. */

import type { Me } from '../http/operator/overview-schemas.ts'
import type { Api } from './api.ts'

export type Session = { readonly api: Api; readonly operator: Me }
