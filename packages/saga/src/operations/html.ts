/** HTML of which every value is text, unless it is HTML made here. */

export type Html = { readonly html: string }
type Value = Html | readonly Html[] | string | number | null | undefined

export function html(parts: TemplateStringsArray, ...values: readonly Value[]): Html {
  return { html: parts.map((part, index) => part + textOf(values[index])).join('') }
}

function textOf(value: Value): string {
  if (value === null || value === undefined) return ''
  if (typeof value !== 'object') return escaped(String(value))
  return 'html' in value ? value.html : value.map((one) => one.html).join('')
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Control and format characters are written out, too: they could reverse or hide what stands around them. Line feeds and tabs stay. */
function escaped(text: string): string {
  return text
    .replace(/[^\P{C}\n\t]/gu, (one) => `\\u{${one.codePointAt(0)?.toString(16) ?? ''}}`)
    .replace(/[&<>"']/g, (one) => entities[one] ?? '')
}
