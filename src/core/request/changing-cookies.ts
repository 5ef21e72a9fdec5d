/**
 * Cookies of analytics, bot management and load balancing, which change while a user does one thing, and which no application reads: data.
 * Written by scripts/changing-cookies.ts, which says what is taken and why; change that.
 *
 * Source: Open Cookie Database, https://github.com/jkwakman/Open-Cookie-Database at 0ee5a17fe1cb (Apache License 2.0,
 * https://www.apache.org/licenses/LICENSE-2.0), a selection of its names; and, for what it lacks:
 * - https://docs.datadoghq.com/real_user_monitoring/guide/ (the session of RUM)
 * - https://help.hotjar.com, "Cookies Set by the Hotjar Tracking Code"
 * - https://docs.humansecurity.com (PerimeterX)
 * - https://techdocs.akamai.com (Bot Manager)
 * - https://docs.datadome.co
 * - https://docs.appdynamics.com (browser monitoring)
 */

const NAMES =
  'ADRUM ADRUM_BT ADRUM_BT1 ADRUM_BTa ARRAffinity ARRAffinitySameSite ASLBSA ASLBSACORS AWSALB AWSALBCORS AWSALBTG AWSALBTGCORS AWSELB ApplicationGatewayAffinity ApplicationGatewayAffinityCORS FPLC GCLB INGRESSCOOKIE SERVERID _CEFT __cf_bm __cflb __cfruid __insp_nv __insp_pad __insp_ref __insp_sid __insp_slim __insp_targlpt __insp_targlpu __insp_uid __insp_wid __utma __utmb __utmc __utmt __utmv __utmz _abck _ce.cch _ce.clock_data _ce.clock_event _ce.gtld _ce.irv _ce.s _ceir _cfuvid _clck _clsk _cs_c _cs_cvars _cs_ex _cs_id _cs_mk_aa _cs_mk_ga _cs_s _dd_s _ga _gali _gat _gid _hjAbsoluteSessionInProgress _hjFirstSeen _hjid _lo_rid _lo_uid _lo_v _pk_cvar _px _px2 _px3 _pxde _pxhd _pxvid _shopify_fs _shopify_s _shopify_sa_p _shopify_uniq _shopify_visit _shopify_y _vwo_ds _vwo_referrer _vwo_sn _ym_d _ym_isad _ym_uid ajs_anonymous_id ak_bmsc bm_mi bm_sv bm_sz cf_clearance datadome dtCookie dtLatC dtPC dtSa rl_anonymous_id rl_page_init_referrer rxVisitor rxvt s_cc s_fid s_ppv s_sq s_tp sbjs_current sbjs_current_add sbjs_first sbjs_first_add sbjs_migrations sbjs_session sbjs_udata'

/** With an id in the place of `*`. */
const PATTERNS =
  'AMP_* AMP_MKTG_* BIGipServer* Hm_lpvt_* Hm_lvt_* NSC_* _chartbeat* _dc_gtm_* _ga_* _gat* _hjSessionUser_* _hjSession_* _hp2_id* _hp2_ses_props* _pk_hsr* _pk_id* _pk_ref* _pk_ses* _pk_testcookie* _sp_id.* _sp_ses.* _ym_visorc_* ab.storage.* amplitude_id_* dd_cookie_test_* dtCookie* dtLatC* dtPC* incap_ses_* mp_*_mixpanel nlbi_* rxVisitor* s_vi* visid_incap_*'

export const CHANGING_COOKIES = {
  names: new Set(NAMES.split(' ')),
  patterns: PATTERNS.split(' ').map((pattern) => pattern.split('*') as [start: string, end: string]),
} as const
