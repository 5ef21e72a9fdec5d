/**
 * The door for programs that look after the kit's tables instead of working with them, such as the sidecar and its command
 * line: `import { openSagaKit } from '@fencepost/saga/admin'`. Nothing inside imports it.
 */

export { sagaBacklog } from './backlog.ts'
export type { SagaAdmin, SagaAdminResult, SagaBacklog } from './core.ts'
export { type OpenKit, openSagaKit } from './open-kit.ts'
export { createSagaAdmin } from './saga-admin.ts'
