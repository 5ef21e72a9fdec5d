/**
 * Grafana's classic JSON of each dashboard ({@link Board}), by the Grafana Foundation SDK. `npm run generate -- dashboards` writes it.
 *
 * Owns the layout and what every dashboard shares: variables, links to the others, annotations.
 */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { StackingConfigBuilder, StackingMode } from '@grafana/grafana-foundation-sdk/common'
import {
  AnnotationQueryBuilder,
  DashboardBuilder,
  DashboardLinkBuilder,
  DashboardLinkType,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  ThresholdsConfigBuilder,
  ThresholdsMode,
  VariableRefresh,
} from '@grafana/grafana-foundation-sdk/dashboard'
import { PanelBuilder as HeatmapBuilder, YAxisConfigBuilder } from '@grafana/grafana-foundation-sdk/heatmap'
import { DataqueryBuilder, PromQueryFormat } from '@grafana/grafana-foundation-sdk/prometheus'
import { PanelBuilder as StatBuilder } from '@grafana/grafana-foundation-sdk/stat'
import { PanelBuilder as StatesBuilder } from '@grafana/grafana-foundation-sdk/statetimeline'
import { PanelBuilder as TableBuilder } from '@grafana/grafana-foundation-sdk/table'
import { PanelBuilder as TimeseriesBuilder } from '@grafana/grafana-foundation-sdk/timeseries'
import { type Board, J, type Panel, S } from './board.ts'
import { BOARDS } from './boards.ts'

const DATASOURCE = { type: 'prometheus', uid: '$datasource' }
const PANEL_WIDTH = 12
const PANEL_HEIGHT = 8

export function grafanaJson(board: Board): string {
  const { known = 'fencepost_build_info' } = board
  const builder = new DashboardBuilder(board.title)
    .uid(board.uid)
    .description(board.description)
    .tags(['fencepost'])
    .readonly()
    .refresh('30s')
    .time({ from: 'now-1h', to: 'now' })
    .withVariable(new DatasourceVariableBuilder('datasource').label('Data Source').type('prometheus'))
    .withVariable(variable('cluster', `label_values(${known}, cluster)`))
    .withVariable(variable('namespace', `label_values(${known}{cluster=~"$cluster"}, namespace)`))
    .withVariable(variable('job', `label_values(${known}{cluster=~"$cluster",namespace=~"$namespace"}, job)`))
    .withVariable(variable('instance', `label_values(${known}{${J}}, instance)`))
    .link(
      new DashboardLinkBuilder('fencepost')
        .type(DashboardLinkType.Dashboards)
        .tags(['fencepost'])
        .includeVars(true)
        .keepTime(true),
    )
  // The kit is in processes of applications.
  if (board.known === undefined) builder.annotation(sidecarsStarted())
  for (const panel of board.panels) builder.withPanel(panelOf(panel))
  return `${JSON.stringify(builder.build(), null, 2)}\n`
}

function sidecarsStarted(): AnnotationQueryBuilder {
  return new AnnotationQueryBuilder()
    .name('Sidecars started')
    .datasource(DATASOURCE)
    .enable(true)
    .iconColor('blue')
    .expr(
      // Its age and not `changes(…)`: a pod that replaces another has series of its own, which begin with its start.
      `time() - process_start_time_seconds{${S}} < 90 and on (cluster, namespace, job, instance) fencepost_build_info{${S}}`,
    )
}

function variable(name: string, query: string): QueryVariableBuilder {
  return (
    new QueryVariableBuilder(name)
      .label(name)
      .query(query)
      .datasource(DATASOURCE)
      .refresh(VariableRefresh.OnTimeRangeChanged)
      .multi(true)
      .includeAll(true)
      // And not `.+`: a Prometheus of one cluster has no label `cluster`.
      .allValue('.*')
  )
}

function panelOf(panel: Panel) {
  const made = shared(builderOf(panel), panel)
  for (const [index, { expr, legend }] of panel.queries.entries()) {
    const query = new DataqueryBuilder()
      .refId(String.fromCharCode(65 + index))
      .datasource(DATASOURCE)
      .expr(expr)
      .legendFormat(legend)
    if (panel.kind === 'heatmap') query.format(PromQueryFormat.Heatmap)
    // As time series each would be a frame of its own, and a table shows one frame.
    if (panel.kind === 'alerts') query.format(PromQueryFormat.Table)
    made.withTarget(panel.kind === 'stat' || panel.kind === 'alerts' ? query.instant() : query.range())
  }
  return made
}

type AnyBuilder = TimeseriesBuilder | StatBuilder | HeatmapBuilder | StatesBuilder | TableBuilder

function builderOf({ kind, stacked, unit }: Panel): AnyBuilder {
  switch (kind) {
    case 'timeseries': {
      const made = new TimeseriesBuilder().fillOpacity(stacked ? 30 : 0)
      return stacked ? made.stacking(new StackingConfigBuilder().mode(StackingMode.Normal)) : made
    }
    case 'stat':
      return new StatBuilder()
    case 'heatmap':
      // Its buckets are Prometheus's own: the axis shows their bounds, in the unit of what was observed.
      return new HeatmapBuilder().calculate(false).yAxis(new YAxisConfigBuilder().unit(unit))
    case 'states':
      return new StatesBuilder()
    case 'alerts':
      return new TableBuilder()
  }
}

function shared(made: AnyBuilder, { title, description, unit, thresholds }: Panel): TimeseriesBuilder {
  // All of them have these; their types have no common ancestor.
  return (made as TimeseriesBuilder)
    .title(title)
    .description(description)
    .datasource(DATASOURCE)
    .unit(unit)
    .span(PANEL_WIDTH)
    .height(PANEL_HEIGHT)
    .thresholds(
      new ThresholdsConfigBuilder()
        .mode(ThresholdsMode.Absolute)
        .steps(thresholds.map(({ from, color }) => ({ value: from, color }))),
    )
}

if (import.meta.main) {
  for (const board of BOARDS)
    writeFileSync(join(import.meta.dirname, `${board.uid}.json`), grafanaJson(board))
}
