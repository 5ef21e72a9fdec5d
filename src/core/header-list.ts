/** The headers of a message as this program hands them on: the shape, not what a header means. */

export type HeaderLine = readonly [name: string, value: string]

/** Whole headers as they crossed the wire: names in their own case, one entry a line, order kept. */
export type HeaderList = readonly HeaderLine[]
