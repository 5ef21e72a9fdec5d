/** The settings of a worker process, as JSON in its second argument. */
export type WorkerSettings = {
  readonly databaseUrl: string
  readonly providerUrl: string
  /** Absent: delivery inside the database. */
  readonly rabbitMqUrl?: string
}

export type Role = 'relay' | 'orders' | 'ledger'
