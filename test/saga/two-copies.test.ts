// Two copies of the package in one process: a bundle beside `node_modules`, or a library with a copy of its own below it.
import {
  BusinessError,
  IdempotencyKeyReuseError,
  NonRetryableError,
  OperationInProgressError,
  SagaKitError,
} from '@fencepost/saga'
import { expect, test, vi } from 'vitest'
import { finalOutcomeOf, isHopeless } from '../../packages/saga/src/error-meaning.ts'

vi.resetModules()
const other = await import('../../packages/saga/src/errors.ts')

test('the copies are two', () => {
  expect(other.BusinessError).not.toBe(BusinessError)
})

// Bug: a refusal that a handler threw was tried again, and became a dead letter.
test('what an error means for a message is the same in every copy', () => {
  expect(finalOutcomeOf(new other.BusinessError('declined', 'no'))).toBe('refused')
  expect(finalOutcomeOf(new other.StepSuspendedError('saga', 'step', 'compensated'))).toBe('suspended')
  expect(isHopeless(new other.NonRetryableError('no'))).toBe(true)
  expect(isHopeless(new other.IdempotencyKeyReuseError('scope', 'key'))).toBe(true)
  expect(new other.OperationInProgressError('it', 5)).toBeInstanceOf(OperationInProgressError)
})

class Declined extends BusinessError {}
class ElsewhereDeclined extends other.BusinessError {}

test('a class of the application is itself, whatever it extends', () => {
  expect(new ElsewhereDeclined('declined', 'no')).toBeInstanceOf(BusinessError)
  expect(new Declined('declined', 'no')).toBeInstanceOf(Declined)
  expect(new BusinessError('declined', 'no')).not.toBeInstanceOf(Declined)
  expect(new ElsewhereDeclined('declined', 'no')).not.toBeInstanceOf(Declined)
})

test.each([
  [new BusinessError('declined', 'no'), NonRetryableError],
  [new NonRetryableError('no'), BusinessError],
  [new Error('no'), SagaKitError],
  ['no', BusinessError],
  [null, IdempotencyKeyReuseError],
])('%s is not taken for another error', (error, of) => {
  expect((error as unknown) instanceof of).toBe(false)
})
