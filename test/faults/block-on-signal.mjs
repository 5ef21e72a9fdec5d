// Loaded into a sidecar by `--import`: SIGUSR2 blocks its event loop for two leases (F24), as a bug of ours would.
process.on('SIGUSR2', () => {
  const untilMs = performance.now() + Number(process.env.BLOCK_FOR_MS)
  while (performance.now() < untilMs);
})
