/** The types of head-comment.mjs, which is JavaScript because it runs on a Node that strips no types. */
export function headComment(source: string): string
export function asksForHelp(args: readonly string[]): boolean
