/** The service as generated code would describe it, with JSON for its messages: one unary call. */
import type { ServiceDefinition } from '@grpc/grpc-js'

export type ChargeRequest = { readonly order_id: string; readonly amount: number }
export type ChargeReply = { readonly payment_id: string; readonly duplicate: boolean }

const write = (message: unknown): Buffer => Buffer.from(JSON.stringify(message))

export const PAYMENTS = {
  charge: {
    path: '/example.Payments/Charge',
    requestStream: false,
    responseStream: false,
    requestSerialize: write,
    requestDeserialize: (bytes: Buffer): ChargeRequest => JSON.parse(bytes.toString()),
    responseSerialize: write,
    responseDeserialize: (bytes: Buffer): ChargeReply => JSON.parse(bytes.toString()),
  },
} satisfies ServiceDefinition
