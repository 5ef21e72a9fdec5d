import type { Service } from './messages.ts'

/** The settings of a worker process, as JSON in its argument. */
export type WorkerSettings = {
  readonly service: Service
  /** Of the service's own database. */
  readonly databaseUrl: string
  readonly rabbitMqUrl: string
  readonly providerUrl: string
}
