import { eachPaymentIsTakenOnce } from '../support/payments.ts'

eachPaymentIsTakenOnce('fastify/server.ts')
