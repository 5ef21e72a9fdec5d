/**
 * The main job of a sidecar that a newcomer has just started, over HTTP alone: a value is reserved, completed, and answered to the next one
 * who wants it.
 */
import type { Patience } from '../test/support/eventually.ts'
import type { TestProcess } from '../test/support/processes.ts'

/** Of a first look: nodes inside the process, no application, ports that the system chooses. */
export const FIRST_LOOK = {
  FENCEPOST_REDIS_NODES: 'embedded',
  FENCEPOST_PROXY_LISTEN: 'off',
  FENCEPOST_API_LISTEN: '127.0.0.1:0',
  FENCEPOST_ADMIN_LISTEN: '127.0.0.1:0',
  // The machine of a release is busy with it.
  FENCEPOST_CLAIM_BUDGET: '3s',
} as const

export type Addresses = { readonly api: string; readonly admin: string }

/** Waits until it serves. */
export async function addressesOf(sidecar: TestProcess, patience?: Patience): Promise<Addresses> {
  const [line] = await sidecar.line(/^\{.*"message":"fencepost is serving".*$/, patience)
  const { addresses } = JSON.parse(line) as { addresses: Addresses }
  await sidecar.http(`${addresses.admin}/livez`, 200, patience)
  return addresses
}

/** @throws where a duplicate is told anything but the recorded result */
export async function reserveTwice({ api }: Addresses): Promise<void> {
  const reserve = (session: string) =>
    called(`${api}/v1/reservations`, { session_id: session, reserved_value: 'payment:order-42' })
  const held = (await reserve('worker-1')) as { reservation_id: string; fencing_token: number }
  const result = { paid: 1200 }
  await called(`${api}/v1/reservations/${held.reservation_id}/complete`, {
    fencing_token: held.fencing_token,
    result,
  })
  const told = JSON.stringify(await reserve('worker-2'))
  if (!told.includes('"DUPLICATE"') || !told.includes(JSON.stringify(result)))
    throw new Error(`who comes second is told ${told}, and not the result ${JSON.stringify(result)}`)
}

async function called(url: string, body: object): Promise<unknown> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const text = await answer.text()
  if (answer.status >= 500) throw new Error(`POST ${url} answers ${answer.status} ${text}`)
  return JSON.parse(text)
}
