/** The lines of the documents for a cluster. `npm run test:cluster -- page-` runs them. */
import { expect, test } from 'vitest'
import { allPageLines, blocksIn, commandsIn, PAGES, readPage } from '../support/page-lines.ts'
import { LINES_OF_PAGES } from './pages/scenarios.ts'
import { filled } from './reader.ts'

/** Names of commands in a sentence, with nothing that they are done to. */
const NAMES = [
  'helm dependency update',
  'helm install --wait',
  'helm rollback',
  'helm template',
  'helm test',
  'helm uninstall',
  'helm upgrade',
  'helm upgrade --wait',
  'kubectl drain',
  'kubectl get pod',
  'kubectl logs --previous',
  'kubectl port-forward',
  'kubectl rollout restart',
  'kubectl rollout status',
]

/** Why a line is not run. */
const NOT_RUN: Readonly<Record<string, string>> = {
  'for i in 0 1 2 3 4; do kubectl patch pvc data-fencepost-redis-$i --type=merge --patch \'{"spec":{"resources":{"requests":{"storage":"8Gi"}}}}\'; done':
    'volumes of the machine cannot grow',
  'kubectl delete statefulset fencepost-redis --cascade=orphan': 'goes with the line before',
  'helm install fencepost oci://ghcr.io/fencepost/charts/fencepost --version 0.1.0 …':
    'takes the chart from a registry, and nothing was published yet',
  'printf \'%s\\n\' "$OPERATOR_PASSWORD" | kubectl -n fencepost exec -i "$pod" -- sh -c \'IFS= read -r REDISCLI_AUTH export REDISCLI_AUTH; exec valkey-cli --tls --cacert /etc/valkey-tls/ca.crt --user operator "$@"\' sh "$@"':
    'test/deploy/drills.test.ts runs it in a shell',
}

test('every line for a cluster is run in one, or it is said why not', () => {
  const all = allPageLines().map(({ text }) => text)
  const run = new Set(LINES_OF_PAGES.map(({ text }) => text))
  const known = [...NAMES, ...Object.keys(NOT_RUN)]
  expect(all.filter((text) => !run.has(text) && !known.includes(text))).toEqual([])
  // What no page has any more, or is run after all.
  expect(known.filter((text) => !all.includes(text) || run.has(text))).toEqual([])
})

// The nodes of a release that was just installed do not vote yet, so its test would fail.
test('where `helm test` follows `helm install`, the release is waited for', () => {
  const tested = PAGES.flatMap((page) => blocksIn(readPage(page))).filter((block) =>
    /^helm install [\s\S]*^helm test /m.test(block),
  )
  expect(tested.length).toBeGreaterThan(0)
  for (const block of tested) expect(block).toMatch(/^helm install .* --wait /m)
})

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
