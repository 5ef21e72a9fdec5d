/**
 * What RabbitMQ refuses when something connects or declares, by name and with what to do. A node that answers is not out
 * of reach.
 *
 * Source: AMQP 0-9-1, "Constants"; RabbitMQ documentation, "Access Control" and "Queues" (equivalence of declarations).
 */
import {
  BrokerAccessRefusedError,
  BrokerDeclarationRefusedError,
  type BrokerUnavailableError,
  BrokerVirtualHostError,
} from '../errors.ts'

/** undefined if the node did not answer, or not with one of these. */
export function refusalOf(url: string, error: unknown): BrokerUnavailableError | undefined {
  const message = String((error as Error)?.message).trim()
  const { user, vhost } = partsOf(url)
  const options = { cause: error }
  if (vhostClosed.test(message)) return vhostRefused(user, vhost, options)
  const said = /(\d{3}) \([A-Z-]+\) with message "(.*)"$/s.exec(message)
  if (said === null) return undefined
  const [, code, text = ''] = said
  switch (code) {
    case '403':
      return new BrokerAccessRefusedError(
        /login was refused/i.test(text)
          ? `RabbitMQ refused the login of the user ${user} (${text}); check user and password in the url, and that guest connects from the node's own machine`
          : `RabbitMQ refuses the user ${user} (403: ${text}); give it rights with rabbitmqctl set_permissions -p "${vhost}" ${user} CONFIGURE WRITE READ, for the queue and its delay queues (QUEUE.again.…)`,
        options,
      )
    case '530':
      return vhostRefused(user, vhost, options)
    case '404':
      return new BrokerDeclarationRefusedError(
        `RabbitMQ does not have what the subscriber binds to (${text}); declare the exchange first, or correct bindings`,
        options,
      )
    case '405':
      return new BrokerDeclarationRefusedError(
        `RabbitMQ keeps the queue for another connection (${text}); it was declared as exclusive: delete it, or give the subscriber another queue`,
        options,
      )
    case '406':
      return new BrokerDeclarationRefusedError(
        `RabbitMQ has the queue with other arguments (${text}); the kit needs a durable quorum queue and declares it itself: delete the one that is there when it is empty, or give the subscriber another name`,
        options,
      )
    default:
      return undefined
  }
}

/** The queue is there, and was declared by a RabbitMQ before 4. */
export function lacksDeliveryLimit(error: unknown): boolean {
  return /inequivalent arg 'x-delivery-limit'/.test(String((error as Error)?.message))
}

/** It is used all the same: what it costs, and how it is mended. */
export function limitedDeliveries(queue: string, cause: unknown): BrokerDeclarationRefusedError {
  return new BrokerDeclarationRefusedError(
    `the queue ${queue} is used as it is; it was declared before RabbitMQ 4, which drops a message of it after 20 deliveries without an end, unless a policy says otherwise: rabbitmqctl set_policy --apply-to quorum_queues fencepost "^${queue}$" '{"delivery-limit": -1}'`,
    { cause },
  )
}

/** The node closes the connection instead of opening the virtual host; amqplib keeps its words (530) to itself. */
const vhostClosed = /^Expected ConnectionOpenOk; got <ConnectionClose\b/

function vhostRefused(user: string, vhost: string, options: ErrorOptions): BrokerVirtualHostError {
  return new BrokerVirtualHostError(
    `RabbitMQ does not open the virtual host "${vhost}" for the user ${user}; create it with rabbitmqctl add_vhost "${vhost}", give the user rights with rabbitmqctl set_permissions -p "${vhost}" ${user} CONFIGURE WRITE READ, or correct the path of the url (without a path it is "/"). The node's log says which`,
    options,
  )
}

/** Never the password. */
function partsOf(url: string): { user: string; vhost: string } {
  if (!URL.canParse(url)) return { user: '?', vhost: '?' }
  const { username, pathname } = new URL(url)
  const decoded = (text: string) => {
    try {
      return decodeURIComponent(text)
    } catch {
      return text
    }
  }
  return { user: decoded(username) || 'guest', vhost: decoded(pathname.slice(1)) || '/' }
}
