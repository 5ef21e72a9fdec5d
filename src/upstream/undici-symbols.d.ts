/** The names of two private members of undici, which come without types. */
declare module 'undici/lib/core/symbols.js' {
  const symbols: { readonly kSocket: unique symbol; readonly kParser: unique symbol }
  export default symbols
}
