/**
 * `prepack` of the folders with sources: refuses. Their `exports` name TypeScript, which nobody could import from a package.
 * What is published is made of them, by `npm run release -- pack`.
 */
console.error(
  'This folder has the sources. `npm run release -- pack` builds the packages and packs them into dist/tarballs/.',
)
process.exitCode = 1
