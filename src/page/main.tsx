/** The entry of the operator's page: puts it into its document. */

import { render } from 'preact'
import { Page } from './page.tsx'

const place = document.getElementById('page')
if (place !== null) render(<Page />, place)
