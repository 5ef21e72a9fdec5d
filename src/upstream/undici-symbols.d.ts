/** The names of private members of undici, which come without types. */
declare module 'undici/lib/core/symbols.js' {
  const symbols: {
    readonly kSocket: unique symbol
    readonly kParser: unique symbol
    readonly kReset: unique symbol
  }
  export default symbols
}
