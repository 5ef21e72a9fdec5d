/**
 * Writes src/core/request/changing-cookies.ts from the Open Cookie Database.
 *
 *   node scripts/changing-cookies.ts <path of open-cookie-database.csv> <commit>
 *
 * Owns which of its rows are taken: analytics, bot management and load balancing, of the makers named here. A name that an application may
 * have chosen for itself (`S1`, `fid`, `queryString`), or that holds who is signed in, is left out: two requests that differ in it are two.
 */

import { readFileSync, writeFileSync } from 'node:fs'

/** As the database writes them, with the names of each that are taken; `*` is an id of any form. */
const TAKEN: Readonly<Record<string, string>> = {
  // Analytics.
  'Google Analytics':
    '_ga _gid _ga_* _gat _gat* _gali _dc_gtm_* __utma __utmb __utmc __utmt __utmv __utmz FPLC',
  Microsoft: '_clck _clsk',
  'Adobe Analytics': 's_cc s_sq s_vi* s_fid s_ppv s_tp',
  Hotjar: '_hjid',
  Matomo: '_pk_id* _pk_ref* _pk_ses* _pk_cvar _pk_hsr* _pk_testcookie*',
  Inspectlet:
    '__insp_nv __insp_pad __insp_ref __insp_sid __insp_slim __insp_targlpt __insp_targlpu __insp_uid __insp_wid',
  'Amazon Web Services': 'AWSALB AWSALBCORS AWSALBTG AWSALBTGCORS AWSELB',
  Trustpilot: 'ajs_anonymous_id',
  Shopify: '_shopify_s _shopify_y _shopify_sa_p _shopify_fs _shopify_uniq _shopify_visit',
  WooCommerce:
    'sbjs_current sbjs_current_add sbjs_first sbjs_first_add sbjs_migrations sbjs_session sbjs_udata',
  'Visual Website Optimizer': '_vwo_sn _vwo_ds _vwo_referrer',
  Snowplow: '_sp_id.* _sp_ses.*',
  Braze: 'ab.storage.*',
  'Lucky Orange': '_lo_uid _lo_rid _lo_v',
  Chartbeat: '_chartbeat*',
  'Yandex.Metrica': '_ym_uid _ym_d _ym_isad _ym_visorc_*',
  Mixpanel: 'mp_*_mixpanel',
  'Crazy Egg': '_ceir _CEFT _ce.s _ce.cch _ce.gtld _ce.clock_event _ce.clock_data _ce.irv',
  Rudderstack: 'rl_anonymous_id rl_page_init_referrer',
  ContentSquare: '_cs_c _cs_cvars _cs_id _cs_s _cs_ex _cs_mk_aa _cs_mk_ga',
  Amplitude: 'AMP_* AMP_MKTG_* amplitude_id_*',
  Dynatrace: 'dtCookie* dtCookie dtLatC* dtLatC dtPC* dtPC dtSa rxVisitor* rxVisitor rxvt',
  'Heap Analytics': '_hp2_id* _hp2_ses_props*',
  Baidu: 'Hm_lpvt_* Hm_lvt_*',
  // Bot management.
  Cloudflare: '__cf_bm __cflb __cfruid _cfuvid cf_clearance',
  Akamai: 'ak_bmsc bm_sv',
  Imperva: 'incap_ses_* visid_incap_* nlbi_*',
  // Load balancing.
  Google: 'GCLB',
  'Azure / Microsoft':
    'ARRAffinity ARRAffinitySameSite ASLBSA ASLBSACORS ApplicationGatewayAffinity ApplicationGatewayAffinityCORS',
  HAproxy: 'SERVERID',
  'f5 BIG-IP': 'BIGipServer*',
  'NGINX Ingresss': 'INGRESSCOOKIE',
  Citrix: 'NSC_*',
}

/** What the database lacks, each from the documentation of its maker. */
const OTHERS: Readonly<Record<string, string>> = {
  'https://docs.datadoghq.com/real_user_monitoring/guide/ (the session of RUM)': '_dd_s dd_cookie_test_*',
  'https://help.hotjar.com, "Cookies Set by the Hotjar Tracking Code"':
    '_hjSession_* _hjSessionUser_* _hjAbsoluteSessionInProgress _hjFirstSeen',
  'https://docs.humansecurity.com (PerimeterX)': '_px _px2 _px3 _pxvid _pxhd _pxde',
  'https://techdocs.akamai.com (Bot Manager)': '_abck bm_mi bm_sz',
  'https://docs.datadome.co': 'datadome',
  'https://docs.appdynamics.com (browser monitoring)': 'ADRUM ADRUM_BT ADRUM_BTa ADRUM_BT1',
}

const [path, commit] = process.argv.slice(2)
if (path === undefined || commit === undefined) throw new Error('usage: changing-cookies.ts <csv> <commit>')

/** Platform and name; the rows have no line ends between quotes before the columns that are read. */
const rows = readFileSync(path, 'utf8')
  .split('\n')
  .map((line) =>
    [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].map(([, cell = '']) => cell.replaceAll('"', '')),
  )
const known = rows.map(([, platform = '', , name = '']) => `${platform}\n${name}`)

for (const [platform, names] of Object.entries(TAKEN))
  for (const name of names.split(' ')) {
    const [start = ''] = name.split('*')
    if (!known.some((one) => one === `${platform}\n${name}` || one.startsWith(`${platform}\n${start}`)))
      throw new Error(`${platform} has no ${name}`)
  }

const all = [...Object.values(TAKEN), ...Object.values(OTHERS)].flatMap((names) => names.split(' '))
const list = (names: readonly string[]) => [...new Set(names)].sort().join(' ')
const names = list(all.filter((name) => !name.includes('*')))
const patterns = list(all.filter((name) => name.includes('*')))
writeFileSync(
  new URL('../src/core/request/changing-cookies.ts', import.meta.url),
  `/**
 * Cookies of analytics, bot management and load balancing, which change while a user does one thing, and which no application reads: data.
 * Written by scripts/changing-cookies.ts, which says what is taken and why; change that.
 *
 * Source: Open Cookie Database, https://github.com/jkwakman/Open-Cookie-Database at ${commit.slice(0, 12)} (Apache License 2.0,
 * https://www.apache.org/licenses/LICENSE-2.0), a selection of its names; and, for what it lacks:
${Object.keys(OTHERS)
  .map((source) => ` * - ${source}`)
  .join('\n')}
 */

const NAMES =
  '${names}'

/** With an id in the place of \`*\`. */
const PATTERNS =
  '${patterns}'

export const CHANGING_COOKIES = {
  names: new Set(NAMES.split(' ')),
  patterns: PATTERNS.split(' ').map((pattern) => pattern.split('*') as [start: string, end: string]),
} as const
`,
)
