/** The lines of the documents for a cluster. `npm run test:cluster -- page-` runs them. */
import { expect, test } from 'vitest'
import { commandsIn } from '../support/page-lines.ts'
import { filled } from './reader.ts'

const page = `
Run \`kubectl exec POD\`, or \`kubectl rollout
status statefulset/a\`, not \`kubectlx\`.

\`\`\`
kubectl get pods --watch          # until they are ready
echo kubectl
helm install a b \\
  --set c=d
kubectl run e --overrides='{"a":
  {"b":1}}' -- f
stop() { kubectl delete pod "$1"; }
STATUS='kubectl exec POD'
\`\`\`

- In a list:

  \`\`\`sh
  password=$(kubectl get secret s)
  \`\`\`

In a cluster:

    kubectl create secret generic s
    kubectl port-forward POD 8084        # then in a browser
`

test('a line for a cluster is found in blocks and sentences, with what continues it and without a remark', () => {
  expect(commandsIn(page)).toEqual([
    'kubectl get pods --watch',
    'helm install a b --set c=d',
    `kubectl run e --overrides='{"a": {"b":1}}' -- f`,
    'stop() { kubectl delete pod "$1"; }',
    "STATUS='kubectl exec POD'",
    'password=$(kubectl get secret s)',
    'kubectl create secret generic s',
    'kubectl port-forward POD 8084',
    'kubectl exec POD',
    'kubectl rollout status statefulset/a',
  ])
})

test('a name of the reader that a line does not have is a mistake', () => {
  expect(filled('kubectl drain MACHINE', { MACHINE: 'node-a' })).toBe('kubectl drain node-a')
  expect(() => filled('kubectl drain MACHINE', { POD: 'a' })).toThrow('`kubectl drain MACHINE` has no POD')
})
