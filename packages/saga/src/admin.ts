/**
 * The entry point for programs that administer the kit's tables instead of working with them, such as the sidecar and
 * its command line: `import { openSagaKit } from '@fencepost/saga/admin'`. No module of the package imports it.
 */

export { sagaBacklog } from './backlog.ts'
export type { SagaAdmin, SagaAdminResult, SagaBacklog } from './core.ts'
export { type OpenKit, openSagaKit } from './open-kit.ts'
export { createSagaAdmin } from './saga-admin.ts'
export { explained } from './setup-errors.ts'
