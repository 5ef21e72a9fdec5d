/** The look of the page: that of the sidecar's, in the light and dark of the reader's system. Contrasts are 4.5 to 1 and more (WCAG 2.2, AA). */

export const style = `:root {
  color-scheme: light dark;
  --back: #f5f6f8; --panel: #ffffff; --text: #1b1f27; --faint: #545b69; --edge: #d5d9e0; --field: #858d9b;
  --link: #1d4fb8; --accent: #2457c5; --on-accent: #ffffff; --good: #11633a; --good-back: #def3e6;
  --warn: #7a4a00; --warn-back: #fdeecb; --bad: #a01c24; --bad-back: #fce4e4; --plain-back: #e8ebf0;
  font: 16px / 1.5 system-ui, sans-serif;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #14171d; --panel: #1d212a; --text: #e8ebf1; --faint: #a9b0be; --edge: #363c49; --field: #7d8596;
    --link: #8db4ff; --accent: #8db4ff; --on-accent: #10141c; --good: #7fdca6; --good-back: #17382a;
    --warn: #f4c66a; --warn-back: #3d300f; --bad: #ff9c9c; --bad-back: #451d21; --plain-back: #303644;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
header { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; align-items: center; padding: 0.5rem 1rem;
  border-bottom: 1px solid var(--edge); background: var(--panel); }
.brand { font-weight: 700; }
.who { margin-left: auto; color: var(--faint); font-size: 0.9rem; }
main { max-width: 68rem; margin: 0 auto; padding: 0.5rem 1rem 3rem; }
main:focus { outline: none; }
h1 { margin: 0.75rem 0 0.5rem; font-size: 1.6rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { margin: 0 0 0.5rem; font-size: 1.15rem; }
h3, h4 { margin: 0.5rem 0 0.25rem; font-size: 1rem; overflow-wrap: anywhere; }
p { margin: 0.25rem 0 0.6rem; }
pre { max-height: 24rem; margin: 0.5rem 0; padding: 0.6rem; overflow: auto; border: 1px solid var(--edge);
  border-radius: 0.4rem; background: var(--back); font-family: ui-monospace, monospace; white-space: pre-wrap; }
dd, td, pre, .reason { overflow-wrap: anywhere; }
.panel { margin: 0 0 1rem; padding: 1rem; border: 1px solid var(--edge); border-radius: 0.6rem; background: var(--panel); }
.wrong { border-color: var(--bad); border-left-width: 0.4rem; }
.hint, .when, caption, dt { color: var(--faint); font-size: 0.9rem; }
.failure, .done { padding: 0.5rem 0.75rem; border-radius: 0.4rem; }
.failure { background: var(--bad-back); color: var(--bad); }
.done { background: var(--good-back); }
.preview { padding: 0.75rem; border: 1px solid var(--warn); border-radius: 0.4rem; background: var(--warn-back); }
label { display: block; margin-top: 0.6rem; font-weight: 600; }
input, select { display: block; width: 100%; max-width: 34rem; padding: 0.45rem 0.6rem; border: 1px solid var(--field);
  border-radius: 0.4rem; background: var(--panel); color: var(--text); font: inherit; }
button { min-height: 2.25rem; margin: 0.35rem 0; padding: 0.35rem 0.8rem; border: 1px solid var(--field);
  border-radius: 0.4rem; background: var(--panel); color: var(--text); font: inherit; cursor: pointer; }
button.primary { border-color: var(--accent); background: var(--accent); color: var(--on-accent); font-weight: 600; }
button.danger { border-color: var(--bad); color: var(--bad); font-weight: 600; }
.decision { padding: 0 0.75rem 0.5rem; }
.badge { display: inline-block; padding: 0.05rem 0.5rem; border-radius: 1rem; background: var(--plain-back);
  font-size: 0.9rem; font-weight: 600; }
.badge.good { background: var(--good-back); color: var(--good); }
.badge.warn { background: var(--warn-back); color: var(--warn); }
.badge.bad { background: var(--bad-back); color: var(--bad); }
.facts > div { display: grid; grid-template-columns: minmax(6rem, 12rem) 1fr; gap: 0.75rem; padding: 0.15rem 0; }
.facts dd { margin: 0; }
.entries, .history { margin: 0.5rem 0 0; padding: 0; list-style: none; }
.entries > li { padding: 0.5rem 0; border-top: 1px solid var(--edge); }
.history > li { padding: 0.6rem 0.75rem; border-left: 3px solid var(--edge); }
.history p { margin: 0; }
td > a, td > time { white-space: nowrap; }
.scrolls { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; }
caption { padding: 0.35rem 0; text-align: left; }
th, td { min-width: 4.5rem; padding: 0.35rem 0.75rem 0.35rem 0; border-bottom: 1px solid var(--edge); text-align: left; vertical-align: top; }
.skip { position: absolute; top: -4rem; }
.skip:focus { top: 0.25rem; left: 0.25rem; padding: 0.35rem 0.7rem; background: var(--panel); }
@media (max-width: 40rem) { .who { margin-left: 0; } .facts > div { display: block; } }
`
