/**
 * Whether a database is spoken to in clear text beyond this machine, of what its URL says; what can't be judged is not safe.
 *
 * Resolves no name, and can't see what a mesh, a tunnel or a forwarded port does with the bytes.
 */

/** With these the driver refuses a server that does not encrypt; `prefer` will not do so in its next version. */
const encryptedModes: readonly unknown[] = ['require', 'verify-ca', 'verify-full']

export function isLoopback(host: string): boolean {
  return /^(localhost|::1|127\.\d{1,3}\.\d{1,3}\.\d{1,3})$/i.test(host)
}

/**
 * Where the driver (pg) connects with this text: `host` and `sslmode` are parameters or parts of the URL, of several
 * the last is taken, and a host that begins with a slash is the folder of a Unix socket.
 */
export function isSafeDatabase(text: string): boolean {
  // A URL with a user and no host, for a socket, is none to the standard.
  const url = [text, text.replace('@/', '@none/')].find((one) => URL.canParse(one))
  if (url === undefined) return false
  const { hostname, searchParams } = new URL(url)
  if (encryptedModes.includes(searchParams.getAll('sslmode').at(-1))) return true
  const host = searchParams.getAll('host').at(-1) || decoded(hostname.replace(/^\[(.*)\]$/, '$1'))
  return host.startsWith('/') || isLoopback(host)
}

/** What can't be decoded is no name that is known to be local. */
function decoded(host: string): string {
  try {
    return decodeURIComponent(host)
  } catch {
    return ''
  }
}
