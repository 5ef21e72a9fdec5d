#!/usr/bin/env node
/**
 * The command `fencepost` as npm installs it: says so where Node is too old, and hands over to main.js.
 *
 * A module of its own, in the JavaScript of long ago: an old Node would answer main.js with a SyntaxError before any line of it
 * runs. The version is that of `engines` in package.json.
 */
const needed = require('../package.json').engines.node
const least = needed.replace('>=', '').split('.').map(Number)
const own = process.versions.node.split('.').map(Number)

if (own[0] > least[0] || (own[0] === least[0] && own[1] >= least[1])) import('./main.js')
else {
  console.error(
    `fencepost needs Node ${least.join('.')} or newer, and this is ${process.version}. Install a newer Node, or run the image.`,
  )
  process.exitCode = 1
}
