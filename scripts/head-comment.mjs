/**
 * The comment at the head of a program, which is its help: what it does, and its options.
 *
 * Plain JavaScript without dependencies, because run.mjs shows it before anything is installed.
 */

/**
 * @param {string} source the text of a program
 * @returns {string} its first comment without the marks, or nothing where it has none
 */
export function headComment(source) {
  const [, comment = ''] = /^\/\*\*(.*?)\*\//s.exec(source) ?? []
  return comment.replaceAll(/\n \* ?/g, '\n').trim()
}

/**
 * @param {readonly string[]} args
 * @returns {boolean} whether somebody asks how a program is used
 */
export function asksForHelp(args) {
  return args.includes('--help') || args.includes('-h')
}
