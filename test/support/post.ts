/** What tests send with POST, in one line. */

export function posted(
  url: string,
  headers: Readonly<Record<string, string>>,
  body?: NonNullable<RequestInit['body']>,
): Promise<Response> {
  return fetch(url, { method: 'POST', headers, ...(body === undefined ? {} : { body }) })
}

export function postedJson(url: string, body: unknown, headers: Readonly<Record<string, string>> = {}) {
  return posted(url, { 'content-type': 'application/json', ...headers }, JSON.stringify(body))
}
